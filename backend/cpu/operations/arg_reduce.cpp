// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/cpu_backend.h>

#include <tutti/backend/cpu/operations/axis_blocks.h>

namespace tutti {
namespace {

template <class T> bool wins(ArgReduction kind, T challenger, T best) {
  if (challenger != challenger) return best == best;
  return kind == ArgReduction::arg_max ? challenger > best : challenger < best;
}

/// The place of the best of `length` elements `stride` apart.
template <class T>
std::int64_t place_of_best(ArgReduction kind, const T* from, std::int64_t length, std::int64_t stride) {
  std::int64_t best = 0;
  for (std::int64_t i = 1; i < length; ++i)
    if (wins(kind, from[i * stride], from[best * stride])) best = i;
  return best;
}

}  // namespace

void CpuBackend::arg_reduce(ArgReduction kind, const Array& input, std::size_t axis, const Array& output) {
  stream(output.device())
      .launch(
          kind == ArgReduction::arg_max ? "argmax" : "argmin",
          [kind, axis, &pool = threads(output.device())](const Array& from, const Array& to) {
            const AxisBlocks blocks(from.shape(), axis);
            visit_computed_dtype(from.dtype(), [&]<class T>(std::type_identity<T>) {
              const T* source = from.data<T>();
              std::int64_t* places = to.data<std::int64_t>();
              pool.parallel_for(blocks.outer * blocks.inner, blocks.grain(), [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t i = begin; i < end; ++i)
                  places[i] = place_of_best(kind, source + blocks.first(i), blocks.length, blocks.inner);
              });
            });
          },
          input.contiguous(), output);
}

}  // namespace tutti
