// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/cpu_backend.h>

#include <tutti/backend/cpu/packs/pack_loops.h>
#include <tutti/backend/formulas/philox.h>

#include <algorithm>

namespace tutti {
namespace {

template <class T> void draw_range(const RandomCall& call, std::int64_t begin, std::int64_t end, T* to) {
  constexpr std::uint64_t kTogether = Drawn<T>::kElements;
  const std::uint64_t first = call.offset + static_cast<std::uint64_t>(begin);
  const std::uint64_t last = call.offset + static_cast<std::uint64_t>(end);
  for (std::uint64_t element = first; element < last;) {
    const std::uint64_t within = element % kTogether;
    const Drawn<T> drawn = draw<T>(call, element / kTogether);
    const std::uint64_t count = std::min(kTogether - within, last - element);
    to = std::copy_n(drawn.element + within, count, to);
    element += count;
  }
}

}  // namespace

void CpuBackend::random(const RandomCall& call, const Array& output) {
  stream(output.device())
      .launch(
          "random",
          [call, &pool = threads(output.device())](const Array& to) {
            constexpr std::int64_t kGrain = 4096;
            visit_floating(to.dtype(), [&]<class T>(std::type_identity<T>) {
              pool.parallel_for(to.size(), kGrain, [&](std::int64_t begin, std::int64_t end) {
                draw_range(call, begin, end, to.data<T>() + begin);
              });
            });
          },
          output);
}

}  // namespace tutti
