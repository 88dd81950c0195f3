// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/kernels/normalize.h>

#include <tutti/backend/cuda/kernels/parts/launch.cuh>
#include <tutti/backend/cuda/kernels/parts/line_combine.cuh>
#include <tutti/backend/cuda/kernels/parts/line_loops.cuh>

#include <type_traits>

namespace tutti::cuda_kernels {
namespace {

// Sums are kept in double: their error does not grow with the length.
struct TwoSums {
  double along;  // of gradient n
  double level;  // of the gradient
};

__device__ TwoSums add_sums(const TwoSums& a, const TwoSums& b) { return {a.along + b.along, a.level + b.level}; }

template <class T> struct Rows {
  const T* input;
  const T* weight;
  const T* bias;
  T* mean;
  T* scale;
};

template <class T, bool has_weight, bool has_bias, bool in_quads>
__device__ void write_row(const AxisLines& lines, std::uint32_t lane, T mean, T scale, const T* x, const Rows<T>& rows,
                          T* to) {
  const auto normalized = [=](T value) { return (value - mean) * scale; };
  if constexpr (has_weight && has_bias)
    map_line<in_quads>(
        lines, lane, to, [=](T value, T weight, T bias) { return normalized(value) * weight + bias; }, x, rows.weight,
        rows.bias);
  else if constexpr (has_weight)
    map_line<in_quads>(
        lines, lane, to, [=](T value, T weight) { return normalized(value) * weight; }, x, rows.weight);
  else if constexpr (has_bias)
    map_line<in_quads>(
        lines, lane, to, [=](T value, T bias) { return normalized(value) + bias; }, x, rows.bias);
  else
    map_line<in_quads>(lines, lane, to, normalized, x);
}

template <class T, bool has_weight, bool has_bias, bool in_quads>
__global__ void __launch_bounds__(LineLayout::kThreads, 3)
    normalize_lines(const AxisLines lines, const RowNorm norm, const Rows<T> rows, T* __restrict__ to) {
  const std::uint32_t lane = lines.layout.lane_of(threadIdx.x);
  const auto add = [](double a, double b) { return a + b; };
  const double length = static_cast<double>(lines.length);
  for (std::int64_t group = blockIdx.x; group < lines.layout.groups(lines.count); group += gridDim.x) {
    const std::int64_t line = group * lines.layout.lines + lines.layout.line_of(threadIdx.x);
    const bool exists = line < lines.count;
    const std::int64_t first = lines.first(exists ? line : 0);
    const T* const x = rows.input + first;
    T mean(0);
    if (norm.centred) {
      double sum = 0;
      if (exists)
        visit_line<in_quads>(
            lines, lane, [&sum](T value) { sum += static_cast<double>(value); }, x);
      mean = static_cast<T>(combine_line(sum, lines.layout, add) / length);
    }
    double squares = 0;
    const auto add_square = [&squares, mean](T value) {
      const T distance = value - mean;
      squares += static_cast<double>(distance * distance);
    };
    if (exists) visit_line<in_quads>(lines, lane, add_square, x);
    const double variance = combine_line(squares, lines.layout, add) / length;
    if (!exists) continue;
    const T scale = static_cast<T>(1.0 / sqrt(variance + norm.epsilon));
    if (lane == 0) {
      rows.mean[line] = mean;
      rows.scale[line] = scale;
    }
    write_row<T, has_weight, has_bias, in_quads>(lines, lane, mean, scale, x, rows, to + first);
  }
}

template <class T, bool has_weight, bool in_quads> __global__ void __launch_bounds__(LineLayout::kThreads, 3)
    normalize_gradient_lines(const AxisLines lines, const bool centred, const Rows<T> rows,
                             const T* __restrict__ gradient, T* __restrict__ to) {
  const std::uint32_t lane = lines.layout.lane_of(threadIdx.x);
  const double length = static_cast<double>(lines.length);
  for (std::int64_t group = blockIdx.x; group < lines.layout.groups(lines.count); group += gridDim.x) {
    const std::int64_t line = group * lines.layout.lines + lines.layout.line_of(threadIdx.x);
    const bool exists = line < lines.count;
    const std::int64_t first = lines.first(exists ? line : 0);
    const T* const x = rows.input + first;
    const T* const dy = gradient + first;
    const T mean = rows.mean[exists ? line : 0];
    const T scale = rows.scale[exists ? line : 0];
    TwoSums sums{0, 0};
    const auto add = [&sums, mean, scale](T value, T g) {
      sums.along += static_cast<double>(g * ((value - mean) * scale));
      sums.level += static_cast<double>(g);
    };
    if constexpr (has_weight) {
      const auto add_weighted = [&add](T value, T g, T weight) { add(value, g * weight); };
      if (exists) visit_line<in_quads>(lines, lane, add_weighted, x, dy, rows.weight);
    } else {
      if (exists) visit_line<in_quads>(lines, lane, add, x, dy);
    }
    sums = combine_line(sums, lines.layout, add_sums);
    if (!exists) continue;
    const T along = static_cast<T>(sums.along / length);
    const T level = centred ? static_cast<T>(sums.level / length) : T(0);
    const auto result = [=](T value, T g) { return scale * (g - level - (value - mean) * scale * along); };
    if constexpr (has_weight)
      map_line<in_quads>(
          lines, lane, to + first, [=](T value, T g, T weight) { return result(value, g * weight); }, x, dy,
          rows.weight);
    else
      map_line<in_quads>(lines, lane, to + first, result, x, dy);
  }
}

// Columns side by side, and some rows of a part at a time.
TUTTI_HOST_DEVICE constexpr LineLayout columns_together() { return {32, LineLayout::kThreads / 32, false}; }

template <class T> __global__ void __launch_bounds__(LineLayout::kThreads)
    normalize_column_sums(const std::int64_t rows, const std::int64_t length, const std::int64_t parts,
                          const Rows<T> by, const T* __restrict__ gradient, T* __restrict__ along,
                          T* __restrict__ level) {
  const LineLayout layout = columns_together();
  const std::int64_t groups = layout.groups(length);
  for (std::int64_t group = blockIdx.x; group < groups * parts; group += gridDim.x) {
    const Division at = divide(group, groups);
    const std::int64_t part = at.quotient;
    const std::int64_t column = at.remainder * layout.lines + layout.line_of(threadIdx.x);
    const std::int64_t begin = divide(part * rows, parts).quotient;
    const std::int64_t end = divide((part + 1) * rows, parts).quotient;
    TwoSums sums{0, 0};
    if (column < length)
      for (std::int64_t row = begin + layout.lane_of(threadIdx.x); row < end; row += layout.lanes) {
        const T g = gradient[row * length + column];
        sums.along += static_cast<double>(g * ((by.input[row * length + column] - by.mean[row]) * by.scale[row]));
        sums.level += static_cast<double>(g);
      }
    sums = combine_line(sums, layout, add_sums);
    if (column >= length || layout.lane_of(threadIdx.x) != 0) continue;
    along[part * length + column] = static_cast<T>(sums.along);
    if (level != nullptr) level[part * length + column] = static_cast<T>(sums.level);
  }
}

template <class F> void visit_type(DType dtype, F&& f) {
  if (dtype == DType::f64)
    f(std::type_identity<double>{});
  else
    f(std::type_identity<float>{});
}

/// Calls `f` with each of the flags as a constant.
template <class F> void visit_flags(F&& f) { f(); }
template <class F, class... More> void visit_flags(F&& f, bool flag, More... more) {
  if (flag)
    visit_flags([&](auto... rest) { f(std::true_type{}, rest...); }, more...);
  else
    visit_flags([&](auto... rest) { f(std::false_type{}, rest...); }, more...);
}

template <class T> Rows<T> typed(const RowOperands& rows) {
  return {static_cast<const T*>(rows.input), static_cast<const T*>(rows.weight), static_cast<const T*>(rows.bias),
          static_cast<T*>(rows.mean), static_cast<T*>(rows.scale)};
}

bool in_quads_or_null(const void* data, std::int64_t length) { return data == nullptr || lies_in_quads(data, length); }

bool in_quads(const AxisLines& lines, const RowOperands& rows, const void* output) {
  return lies_in_quads(rows.input, lines.length) && in_quads_or_null(rows.weight, lines.length) &&
         in_quads_or_null(rows.bias, lines.length) && lies_in_quads(output, lines.length);
}

}  // namespace

void launch_normalize_rows(cudaStream_t stream, const RowNorm& norm, DType dtype, const AxisLines& lines,
                           const RowOperands& rows, void* output) {
  const std::uint32_t blocks = blocks_for(lines.layout.groups(lines.count), 1);
  visit_type(dtype, [&]<class T>(std::type_identity<T>) {
    const auto go = [&](auto has_weight, auto has_bias, auto quads) {
      launch(normalize_lines<T, has_weight.value, has_bias.value, quads.value>, blocks, LineLayout::kThreads, stream,
             lines, norm, typed<T>(rows), static_cast<T*>(output));
    };
    visit_flags(go, rows.weight != nullptr, rows.bias != nullptr, in_quads(lines, rows, output));
  });
}

void launch_normalize_rows_gradient(cudaStream_t stream, const RowNorm& norm, DType dtype, const AxisLines& lines,
                                    const RowOperands& rows, const void* gradient, void* input_gradient) {
  const bool quads_fit = in_quads(lines, rows, input_gradient) && lies_in_quads(gradient, lines.length);
  const std::uint32_t blocks = blocks_for(lines.layout.groups(lines.count), 1);
  visit_type(dtype, [&]<class T>(std::type_identity<T>) {
    const auto go = [&](auto has_weight, auto quads) {
      launch(normalize_gradient_lines<T, has_weight.value, quads.value>, blocks, LineLayout::kThreads, stream, lines,
             norm.centred, typed<T>(rows), static_cast<const T*>(gradient), static_cast<T*>(input_gradient));
    };
    visit_flags(go, rows.weight != nullptr, quads_fit);
  });
}

void launch_normalize_rows_sums(cudaStream_t stream, DType dtype, std::int64_t rows, std::int64_t length,
                                std::int64_t parts, const RowOperands& operands, const void* gradient,
                                void* weight_sums, void* bias_sums) {
  const std::uint32_t blocks = blocks_for(columns_together().groups(length) * parts, 1);
  visit_type(dtype, [&]<class T>(std::type_identity<T>) {
    launch(normalize_column_sums<T>, blocks, LineLayout::kThreads, stream, rows, length, parts, typed<T>(operands),
           static_cast<const T*>(gradient), static_cast<T*>(weight_sums), static_cast<T*>(bias_sums));
  });
}

}  // namespace tutti::cuda_kernels
