// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/kernels/softmax.h>

#include <tutti/backend/cuda/kernels/parts/launch.cuh>
#include <tutti/backend/cuda/kernels/parts/line_combine.cuh>
#include <tutti/backend/cuda/kernels/parts/line_loops.cuh>
#include <tutti/backend/cuda/kernels/parts/quad.h>
#include <tutti/backend/cuda/kernels/parts/softmax_terms.h>

namespace tutti::cuda_kernels {
namespace {

/// exp(x - max) / sum, or x - max - log(sum).
template <class T, SoftmaxKind kind, bool in_quads> __global__ void __launch_bounds__(LineLayout::kThreads, 3)
    softmax_lines(const AxisLines lines, const T* __restrict__ from, T* __restrict__ to) {
  using elementwise::exp;
  using elementwise::log;
  const std::uint32_t lane = lines.layout.lane_of(threadIdx.x);
  for (std::int64_t group = blockIdx.x; group < lines.layout.groups(lines.count); group += gridDim.x) {
    const std::int64_t line = group * lines.layout.lines + lines.layout.line_of(threadIdx.x);
    const bool exists = line < lines.count;
    const std::int64_t first = lines.first(exists ? line : 0);
    ExponentialSum<T> total;
    if (exists)
      visit_line<in_quads>(
          lines, lane, [&total](T x) { total.add(x); }, from + first);
    total = combine_line(total, lines.layout, [](const auto& a, const auto& b) { return a.combine(a, b); });
    if (!exists) continue;
    const T max = total.largest;
    if constexpr (kind == SoftmaxKind::softmax) {
      const T scale = T(1) / total.sum;
      map_line<in_quads>(
          lines, lane, to + first, [=](T x) { return exp(x - max) * scale; }, from + first);
    } else {
      const T shift = log(total.sum);
      map_line<in_quads>(
          lines, lane, to + first, [=](T x) { return x - max - shift; }, from + first);
    }
  }
}

/// softmax y (dy - sum(dy y)); log_softmax dy - exp(y) sum(dy).
template <class T, SoftmaxKind kind, bool in_quads> __global__ void __launch_bounds__(LineLayout::kThreads, 3)
    softmax_gradient_lines(const AxisLines lines, const T* __restrict__ output, const T* __restrict__ gradient,
                           T* __restrict__ to) {
  using elementwise::exp;
  const std::uint32_t lane = lines.layout.lane_of(threadIdx.x);
  for (std::int64_t group = blockIdx.x; group < lines.layout.groups(lines.count); group += gridDim.x) {
    const std::int64_t line = group * lines.layout.lines + lines.layout.line_of(threadIdx.x);
    const bool exists = line < lines.count;
    const std::int64_t first = lines.first(exists ? line : 0);
    const T* const y = output + first;
    const T* const dy = gradient + first;
    const auto add = [](T a, T b) { return a + b; };
    T sum(0);
    if constexpr (kind == SoftmaxKind::softmax) {
      if (exists)
        visit_line<in_quads>(
            lines, lane, [&sum](T value, T upstream) { sum += value * upstream; }, y, dy);
      const T all = combine_line(sum, lines.layout, add);
      if (!exists) continue;
      map_line<in_quads>(
          lines, lane, to + first, [all](T value, T upstream) { return value * (upstream - all); }, y, dy);
    } else {
      if (exists)
        visit_line<in_quads>(
            lines, lane, [&sum](T upstream) { sum += upstream; }, dy);
      const T all = combine_line(sum, lines.layout, add);
      if (!exists) continue;
      map_line<in_quads>(
          lines, lane, to + first, [all](T value, T upstream) { return upstream - exp(value) * all; }, y, dy);
    }
  }
}

/// Calls `f` with the element type, the kind and whether lines lie in quads, all as constants.
template <class F> void visit_variants(DType dtype, SoftmaxKind kind, bool in_quads, F&& f) {
  const auto visit_type = [&]<class T>(std::type_identity<T> type) {
    const auto visit_kind = [&](auto of_kind) {
      if (in_quads)
        f(type, of_kind, std::true_type{});
      else
        f(type, of_kind, std::false_type{});
    };
    if (kind == SoftmaxKind::softmax)
      visit_kind(std::integral_constant<SoftmaxKind, SoftmaxKind::softmax>{});
    else
      visit_kind(std::integral_constant<SoftmaxKind, SoftmaxKind::log_softmax>{});
  };
  if (dtype == DType::f64)
    visit_type(std::type_identity<double>{});
  else
    visit_type(std::type_identity<float>{});
}

}  // namespace

void launch_softmax(cudaStream_t stream, SoftmaxKind kind, DType dtype, const AxisLines& lines, const void* from,
                    void* to) {
  const bool in_quads = lines.inner == 1 && lies_in_quads(from, lines.length) && lies_in_quads(to, lines.length);
  const std::uint32_t blocks = blocks_for(lines.layout.groups(lines.count), 1);
  visit_variants(dtype, kind, in_quads, [&]<class T>(std::type_identity<T>, auto of_kind, auto quads) {
    launch(softmax_lines<T, of_kind.value, quads.value>, blocks, LineLayout::kThreads, stream, lines,
           static_cast<const T*>(from), static_cast<T*>(to));
  });
}

void launch_softmax_gradient(cudaStream_t stream, SoftmaxKind kind, DType dtype, const AxisLines& lines,
                             const void* output, const void* gradient, void* to) {
  const bool in_quads = lines.inner == 1 && lies_in_quads(output, lines.length) &&
                        lies_in_quads(gradient, lines.length) && lies_in_quads(to, lines.length);
  const std::uint32_t blocks = blocks_for(lines.layout.groups(lines.count), 1);
  visit_variants(dtype, kind, in_quads, [&]<class T>(std::type_identity<T>, auto of_kind, auto quads) {
    launch(softmax_gradient_lines<T, of_kind.value, quads.value>, blocks, LineLayout::kThreads, stream, lines,
           static_cast<const T*>(output), static_cast<const T*>(gradient), static_cast<T*>(to));
  });
}

}  // namespace tutti::cuda_kernels
