// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/cpu_backend.h>

#include <tutti/backend/cpu/operations/axis_blocks.h>
#include <tutti/backend/numbers/sort_key.h>

#include <algorithm>
#include <vector>

namespace tutti {
namespace {

template <class T> struct Keyed {
  SortKey<T> key;
  std::int64_t place;
};

/// The places of the elements of one line, `stride` apart, in order; equals keep theirs.
template <class T>
void sort_line(const T* from, std::int64_t stride, bool descending, std::vector<Keyed<T>>& line, std::int64_t* to) {
  for (std::int64_t i = 0; i < std::ssize(line); ++i)
    line[static_cast<std::size_t>(i)] = {sort_key(from[i * stride], descending), i};
  std::stable_sort(line.begin(), line.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  for (std::int64_t i = 0; i < std::ssize(line); ++i) to[i * stride] = line[static_cast<std::size_t>(i)].place;
}

}  // namespace

void CpuBackend::arg_sort(const Array& input, std::size_t axis, bool descending, const Array& output) {
  stream(output.device())
      .launch(
          "argsort",
          [axis, descending, &pool = threads(output.device())](const Array& from, const Array& to) {
            const AxisBlocks blocks(from.shape(), axis);
            visit_computed_dtype(from.dtype(), [&]<class T>(std::type_identity<T>) {
              const T* source = from.data<T>();
              std::int64_t* places = to.data<std::int64_t>();
              pool.parallel_for(blocks.outer * blocks.inner, blocks.grain(), [&](std::int64_t begin, std::int64_t end) {
                std::vector<Keyed<T>> line(static_cast<std::size_t>(blocks.length));
                for (std::int64_t i = begin; i < end; ++i)
                  sort_line(source + blocks.first(i), blocks.inner, descending, line, places + blocks.first(i));
              });
            });
          },
          input, output);
}

}  // namespace tutti
