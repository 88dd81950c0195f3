// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/cpu_backend.h>

#include <tutti/backend/cpu/axis_blocks.h>

namespace tutti {
namespace {

/// In double, or in i64, which wraps when it is narrowed.
template <class T> void sum_line(const T* from, T* to, std::int64_t length, std::int64_t stride) {
  std::conditional_t<std::is_floating_point_v<T>, double, std::int64_t> sum = 0;
  for (std::int64_t i = 0; i < length; ++i) {
    sum += from[i * stride];
    to[i * stride] = static_cast<T>(sum);
  }
}

}  // namespace

void CpuBackend::cumsum(const Array& input, std::size_t axis, bool reverse, const Array& output) {
  stream(output.device())
      .launch(
          "cumsum",
          [axis, reverse, &pool = threads(output.device())](const Array& from, const Array& to) {
            const AxisBlocks blocks(from.shape(), axis);
            const std::int64_t start = reverse ? (blocks.length - 1) * blocks.inner : 0;
            const std::int64_t stride = reverse ? -blocks.inner : blocks.inner;
            visit_computed_dtype(from.dtype(), [&]<class T>(std::type_identity<T>) {
              pool.parallel_for(blocks.outer * blocks.inner, blocks.grain(), [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t i = begin; i < end; ++i) {
                  const std::int64_t first = blocks.first(i) + start;
                  sum_line(from.data<T>() + first, to.data<T>() + first, blocks.length, stride);
                }
              });
            });
          },
          input, output);
}

}  // namespace tutti
