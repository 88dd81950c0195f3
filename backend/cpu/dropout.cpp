// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/cpu_backend.h>

#include <tutti/backend/philox.h>

#include <algorithm>

namespace tutti {
namespace {

constexpr std::int64_t kGrain = 4096;

/// Which of [begin, end) are kept, four neighbours by one counter.
void draw_kept(const DropoutCall& call, std::int64_t begin, std::int64_t end, bool* kept) {
  constexpr std::uint64_t kTogether = Drawn<float>::kElements;
  const std::uint64_t first = call.draw.offset + static_cast<std::uint64_t>(begin);
  const std::uint64_t last = call.draw.offset + static_cast<std::uint64_t>(end);
  kept += begin;
  for (std::uint64_t element = first; element < last;) {
    const Drawn<float> drawn =
        philox_formulas::uniform<float>(call.draw, philox(call.draw.seed, call.draw.stream, element / kTogether));
    const std::uint64_t within = element % kTogether;
    const std::uint64_t count = std::min(kTogether - within, last - element);
    for (std::uint64_t i = 0; i < count; ++i) *kept++ = drawn.element[within + i] < call.keep;
    element += count;
  }
}

template <class T>
void scale_kept(double factor, const T* from, const bool* kept, std::int64_t begin, std::int64_t end, T* to) {
  for (std::int64_t i = begin; i < end; ++i) to[i] = scaled_if(kept[i], from[i], factor);
}

}  // namespace

void CpuBackend::dropout(const DropoutCall& call, const Array& input, const Array& output, const Array& kept) {
  const auto work = [call, &pool = threads(output.device())](const Array& from, const Array& to, const Array& mask) {
    visit_any_floating(from.dtype(), [&]<class T>(std::type_identity<T>) {
      pool.parallel_for(to.size(), kGrain, [&](std::int64_t begin, std::int64_t end) {
        draw_kept(call, begin, end, mask.data<bool>());
        scale_kept(call.factor, from.data<T>(), mask.data<bool>(), begin, end, to.data<T>());
      });
    });
  };
  stream(output.device()).launch("dropout", work, input, output, kept);
}

void CpuBackend::dropout_gradient(double factor, const Array& kept, const Array& input, const Array& output) {
  const auto work = [factor, &pool = threads(output.device())](const Array& mask, const Array& from, const Array& to) {
    visit_any_floating(from.dtype(), [&]<class T>(std::type_identity<T>) {
      pool.parallel_for(to.size(), kGrain, [&](std::int64_t begin, std::int64_t end) {
        scale_kept(factor, from.data<T>(), mask.data<bool>(), begin, end, to.data<T>());
      });
    });
  };
  stream(output.device()).launch("dropout_gradient", work, kept, input, output);
}

}  // namespace tutti
