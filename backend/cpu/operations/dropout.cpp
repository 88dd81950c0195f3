// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/cpu_backend.h>

#include <tutti/backend/formulas/philox.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

namespace tutti {
namespace {

constexpr std::int64_t kDropoutGrain = 4096;

constexpr std::uint64_t kCounters = 16;  // whose words are made together: the loop over them vectorises
constexpr std::uint64_t kWords = kCounters * Drawn<float>::kElements;

void draw_words(const RandomCall& call, std::uint64_t first_counter, std::uint32_t* words) {
  for (std::uint64_t i = 0; i < kCounters; ++i) {
    const Philox bits = philox(call.seed, call.stream, first_counter + i);
    for (std::uint64_t k = 0; k < Drawn<float>::kElements; ++k) words[i * Drawn<float>::kElements + k] = bits.word[k];
  }
}

/// Which of [begin, end) are kept. A uniform number is the upper 24 bits of its word, in units of 2^-24: as an integer
/// it is below what `keep` is in these units, rounded up.
void draw_kept(const DropoutCall& call, std::int64_t begin, std::int64_t end, bool* kept) {
  const auto below = static_cast<std::uint32_t>(std::ceil(static_cast<double>(call.keep) * 0x1p24));
  const std::uint64_t first = call.draw.offset + static_cast<std::uint64_t>(begin);
  const std::uint64_t last = call.draw.offset + static_cast<std::uint64_t>(end);
  kept += begin;
  std::uint32_t words[kWords];
  for (std::uint64_t element = first; element < last;) {
    const std::uint64_t within = element % Drawn<float>::kElements;
    draw_words(call.draw, element / Drawn<float>::kElements, words);
    const std::uint64_t count = std::min(kWords - within, last - element);
    for (std::uint64_t i = 0; i < count; ++i) kept[i] = (words[within + i] >> 8U) < below;
    kept += count;
    element += count;
  }
}

template <class T>
void scale_kept(double factor, const T* from, const bool* kept, std::int64_t begin, std::int64_t end, T* to) {
  using Computed = std::conditional_t<std::is_same_v<T, double>, double, float>;
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t,
                                  std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>>;
  constexpr std::int64_t kPart = 256;
  const auto scale = static_cast<Computed>(factor);
  Bits scaled[kPart];  // its loops are of few arrays and without branches: they vectorise
  for (; begin < end; begin += kPart) {
    const std::int64_t count = std::min(kPart, end - begin);
    for (std::int64_t i = 0; i < count; ++i)
      scaled[i] = std::bit_cast<Bits>(T(static_cast<Computed>(from[begin + i]) * scale));
    for (std::int64_t i = 0; i < count; ++i)
      to[begin + i] = std::bit_cast<T>(static_cast<Bits>(scaled[i] & (Bits{0} - static_cast<Bits>(kept[begin + i]))));
  }
}

}  // namespace

void CpuBackend::dropout(const DropoutCall& call, const Array& input, const Array& output, const Array& kept) {
  const auto work = [call, &pool = threads(output.device())](const Array& from, const Array& to, const Array& mask) {
    visit_any_floating(from.dtype(), [&]<class T>(std::type_identity<T>) {
      pool.parallel_for(to.size(), kDropoutGrain, [&](std::int64_t begin, std::int64_t end) {
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
      pool.parallel_for(to.size(), kDropoutGrain, [&](std::int64_t begin, std::int64_t end) {
        scale_kept(factor, from.data<T>(), mask.data<bool>(), begin, end, to.data<T>());
      });
    });
  };
  stream(output.device()).launch("dropout_gradient", work, kept, input, output);
}

}  // namespace tutti
