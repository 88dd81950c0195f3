// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/cpu_backend.h>

#include <tutti/backend/cpu/operations/axis_blocks.h>

#include <array>

namespace tutti {
namespace {

/// In double, or in i64, which wraps when it is narrowed.
template <class T> struct RunningSum {
  using Input = T;
  using Output = T;
  std::conditional_t<std::is_floating_point_v<T>, double, std::int64_t> sum = 0;

  Output with(T x, std::int64_t) {
    sum += x;
    return static_cast<T>(sum);
  }
};

/// The place of the largest (smallest), the last of equals; NaN wins.
template <class T, bool largest> struct RunningBest {
  using Input = T;
  using Output = std::int64_t;
  T best{};
  std::int64_t place = 0;

  Output with(T x, std::int64_t i) {
    const bool beats = (largest ? best > x : best < x) || (best != best && x == x);
    if (i > 0 && beats) return place;
    best = x;
    return place = i;
  }
};

// Neighbouring lines, which share cache lines; as few as may be where threads would have nothing to do.
constexpr std::int64_t kTogether = 64;
constexpr std::int64_t kFewTogether = 16;

/// `width` lines, side by side; the steps along them are `stride` apart.
template <class Running, std::int64_t most> void scan_lines(const typename Running::Input* from,
                                                            typename Running::Output* to, std::int64_t width,
                                                            std::int64_t length, std::int64_t stride) {
  std::array<Running, most> running;
  for (std::int64_t i = 0; i < length; ++i)
    for (std::int64_t line = 0; line < (most == 1 ? 1 : width); ++line)
      to[i * stride + line] = running[static_cast<std::size_t>(line)].with(from[i * stride + line], i);
}

template <class Running>
void scan(ThreadPool& threads, const Array& from, std::size_t axis, bool reverse, const Array& to) {
  const AxisBlocks blocks(from.shape(), axis);
  const auto* const source = from.data<typename Running::Input>();
  auto* const target = to.data<typename Running::Output>();
  const std::int64_t start = reverse ? (blocks.length - 1) * blocks.inner : 0;
  const std::int64_t stride = reverse ? -blocks.inner : blocks.inner;
  const bool enough = blocks.outer * blocks.inner >= kTogether * threads.threads();
  const std::int64_t width = std::min(blocks.inner, enough ? kTogether : kFewTogether);
  const std::int64_t across = (blocks.inner + width - 1) / width;
  const std::int64_t grain = std::max<std::int64_t>(1, blocks.grain() / width);
  threads.parallel_for(blocks.outer * across, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t column = i % across * width;
      const std::int64_t first = i / across * blocks.length * blocks.inner + column + start;
      if (width == 1)
        scan_lines<Running, 1>(source + first, target + first, 1, blocks.length, stride);
      else
        scan_lines<Running, kTogether>(source + first, target + first, std::min(width, blocks.inner - column),
                                       blocks.length, stride);
    }
  });
}

}  // namespace

void CpuBackend::cumsum(const Array& input, std::size_t axis, bool reverse, const Array& output) {
  stream(output.device())
      .launch(
          "cumsum",
          [axis, reverse, &pool = threads(output.device())](const Array& from, const Array& to) {
            visit_computed_dtype(from.dtype(), [&]<class T>(std::type_identity<T>) {
              scan<RunningSum<T>>(pool, from, axis, reverse, to);
            });
          },
          input, output);
}

void CpuBackend::running_arg(ArgReduction kind, const Array& input, std::size_t axis, const Array& output) {
  const bool largest = kind == ArgReduction::arg_max;
  stream(output.device())
      .launch(
          largest ? "cummax" : "cummin",
          [axis, largest, &pool = threads(output.device())](const Array& from, const Array& to) {
            visit_computed_dtype(from.dtype(), [&]<class T>(std::type_identity<T>) {
              const auto run = largest ? scan<RunningBest<T, true>> : scan<RunningBest<T, false>>;
              run(pool, from, axis, false, to);
            });
          },
          input, output);
}

}  // namespace tutti
