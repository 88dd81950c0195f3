// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/kernels/reduce.h>

#include <tutti/backend/cuda/kernels/parts/launch.cuh>
#include <tutti/backend/cuda/kernels/parts/line_combine.cuh>
#include <tutti/backend/cuda/kernels/parts/quad.h>
#include <tutti/backend/cuda/kernels/parts/reduce_terms.h>

namespace tutti::cuda_kernels {
namespace {

/// Elements [begin, end) of a line, shared out over its lanes; `offset` finds them.
template <class Terms, class T, class Offset>
__device__ typename Terms::Accumulated reduce_scattered(const T* line, std::int64_t begin, std::int64_t end,
                                                        std::int64_t lanes, Offset offset) {
  typename Terms::Accumulated total = Terms::identity();
  std::int64_t i = begin;
#pragma unroll 2
  for (; i + 3 * lanes < end; i += 4 * lanes)
    total = Terms::add(total, line[offset(i)], line[offset(i + lanes)], line[offset(i + 2 * lanes)],
                       line[offset(i + 3 * lanes)]);
  for (; i < end; i += lanes) total = Terms::add(total, line[offset(i)]);
  return total;
}

template <class Terms, class T, class Offset>
__device__ typename Terms::Accumulated reduce_quads(const T* line, std::int64_t begin, std::int64_t end,
                                                    std::int64_t lanes, Offset offset) {
  const auto quad = [&](std::int64_t i) { return *reinterpret_cast<const Quad<T>*>(line + offset(i)); };
  const auto add = [](typename Terms::Accumulated to, const Quad<T>& x) {
    return Terms::add(to, x.at[0], x.at[1], x.at[2], x.at[3]);
  };
  typename Terms::Accumulated total = Terms::identity();
  std::int64_t i = begin;
  for (; i + 4 * lanes < end; i += 8 * lanes) {
    const Quad<T> first = quad(i);
    const Quad<T> second = quad(i + 4 * lanes);
    total = add(add(total, first), second);
  }
  if (i < end) total = add(total, quad(i));
  return total;
}

/// What lane `lane` finds in segment `segment` of a line.
template <class Terms, class T, class Offset>
__device__ typename Terms::Accumulated reduce_lane(const ReduceShape& shape, const T* line, std::int64_t segment,
                                                   std::uint32_t lane, Offset offset) {
  const std::int64_t begin = segment * shape.segment;
  const std::int64_t end = begin + shape.segment < shape.length ? begin + shape.segment : shape.length;
  if (shape.in_quads) return reduce_quads<Terms>(line, begin + 4 * std::int64_t{lane}, end, shape.layout.lanes, offset);
  return reduce_scattered<Terms>(line, begin + lane, end, shape.layout.lanes, offset);
}

template <class Terms, class T> __global__ void __launch_bounds__(LineLayout::kThreads, 4)
    reduce_lines(const ReduceShape shape, const T* __restrict__ from, T* __restrict__ to,
                 typename Terms::Accumulated* __restrict__ partial) {
  const LineLayout& layout = shape.layout;
  const std::int64_t tasks = layout.groups(shape.outputs) * shape.segments;
  const std::uint32_t lane = layout.lane_of(threadIdx.x);
  for (std::int64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
    const Division at = divide(task, shape.segments);
    const std::int64_t line = at.quotient * layout.lines + layout.line_of(threadIdx.x);
    const bool exists = line < shape.outputs;
    const StridedAxes::Offsets place = shape.kept.offsets(exists ? line : 0);
    typename Terms::Accumulated total = Terms::identity();
    if (exists && shape.reduced.count <= 1) {
      const std::int64_t stride = shape.reduced.count == 0 ? 0 : shape.reduced.from[0];
      total = reduce_lane<Terms>(shape, from + place.from, at.remainder, lane,
                                 [stride](std::int64_t i) { return i * stride; });
    } else if (exists) {
      total = reduce_lane<Terms>(shape, from + place.from, at.remainder, lane,
                                 [&shape](std::int64_t i) { return shape.reduced.offsets(i).from; });
    }
    total = combine_line(total, layout, [](auto a, auto b) { return Terms::combine(a, b); });
    if (!exists || lane != 0) continue;
    if (shape.segments == 1)
      to[place.to] = Terms::finish(total);
    else
      partial[line * shape.segments + at.remainder] = total;
  }
}

/// Joins the segments of each output.
template <class Terms, class T> __global__ void __launch_bounds__(LineLayout::kThreads, 4)
    join_segments(const ReduceShape shape, const LineLayout layout,
                  const typename Terms::Accumulated* __restrict__ partial, T* __restrict__ to) {
  const std::uint32_t lane = layout.lane_of(threadIdx.x);
  for (std::int64_t group = blockIdx.x; group < layout.groups(shape.outputs); group += gridDim.x) {
    const std::int64_t line = group * layout.lines + layout.line_of(threadIdx.x);
    const bool exists = line < shape.outputs;
    typename Terms::Accumulated total = Terms::identity();
    for (std::int64_t i = lane; exists && i < shape.segments; i += layout.lanes)
      total = Terms::combine(total, partial[line * shape.segments + i]);
    total = combine_line(total, layout, [](auto a, auto b) { return Terms::combine(a, b); });
    if (exists && lane == 0) to[shape.kept.offsets(line).to] = Terms::finish(total);
  }
}

}  // namespace

void launch_reduce(cudaStream_t stream, Reduction kind, DType dtype, const ReduceShape& shape, const void* from,
                   void* to, void* partial) {
  const auto launch_terms = [&]<class Terms, class T>(Terms, std::type_identity<T>) {
    auto* const parts = static_cast<typename Terms::Accumulated*>(partial);
    const std::uint32_t blocks = blocks_for(shape.layout.groups(shape.outputs) * shape.segments, 1);
    launch(reduce_lines<Terms, T>, blocks, LineLayout::kThreads, stream, shape, static_cast<const T*>(from),
           static_cast<T*>(to), parts);
    if (shape.segments == 1) return;
    const LineLayout layout = LineLayout::of(shape.outputs, shape.segments, true, LineLayout::kOnePass);
    launch(join_segments<Terms, T>, blocks_for(layout.groups(shape.outputs), 1), LineLayout::kThreads, stream, shape,
           layout, parts, static_cast<T*>(to));
  };
  visit_computed_dtype(dtype, [&]<class T>(std::type_identity<T> type) {
    if constexpr (!std::is_same_v<T, bool>) visit_terms<T>(kind, [&](auto terms) { launch_terms(terms, type); });
  });
}

}  // namespace tutti::cuda_kernels
