// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>
#include <tutti/backend/elementwise/operation.h>
#include <tutti/backend/kernel_arguments.h>

#include <cstdint>

namespace tutti {

/// Four 32-bit words that are a function of (seed, stream, counter): Philox 4x32-10 of Salmon et al., "Parallel Random
/// Numbers: As Easy as 1, 2, 3" (2011). The same on every kind of device. Uniform numbers: element i uses counter i /
/// 4, word i % 4 for f32 (top 24 bits), and the pair of words from 2 (i % 2) on of counter i / 2 for f64 (top 53 bits).
/// Normal numbers: two neighbours share their uniform numbers u, v in Box and Muller's transform, computed in f64: the
/// even one is sqrt(-2 log u) cos(2 pi v), the odd one the sine. f32: u = (w + 1) / 2^32 and v = w' / 2^32 of the two
/// words of the pair; f64: of the counter's first and second pair of words, with 2^-53 added to u.
struct Philox {
  std::uint32_t word[4];
};
TUTTI_HOST_DEVICE constexpr Philox philox(std::uint64_t seed, std::uint64_t stream, std::uint64_t counter) {
  std::uint32_t c[4] = {static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32U),
                        static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32U)};
  std::uint32_t k[2] = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32U)};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = 0xD2511F53ULL * c[0];
    const std::uint64_t p1 = 0xCD9E8D57ULL * c[2];
    const std::uint32_t next[4] = {static_cast<std::uint32_t>(p1 >> 32U) ^ c[1] ^ k[0], static_cast<std::uint32_t>(p1),
                                   static_cast<std::uint32_t>(p0 >> 32U) ^ c[3] ^ k[1], static_cast<std::uint32_t>(p0)};
    for (int i = 0; i < 4; ++i) c[i] = next[i];
    k[0] += 0x9E3779B9U;
    k[1] += 0xBB67AE85U;
  }
  return {{c[0], c[1], c[2], c[3]}};
}

/// A seeded source of random arrays. Splittable: `split(i)` is independent of this one and of every other split, and
/// does not depend on what was drawn. Each call advances the counter by the number of elements drawn, so results do not
/// depend on shapes or dtypes before. One thread at a time.
class Generator {
 public:
  explicit Generator(std::uint64_t seed, std::uint64_t stream = 0) : seed_(seed), stream_(stream) {}

  /// [low, high). f32 and f64 only, else DTypeError; so for `normal`.
  Array uniform(const Shape&, DType, Device, double low = 0.0, double high = 1.0);
  Array normal(const Shape&, DType, Device, double mean = 0.0, double standard_deviation = 1.0);
  std::uint64_t next_u64();                  ///< for host code: shuffles, seeds
  std::uint64_t below(std::uint64_t bound);  ///< uniform in [0, bound), without bias
  Generator split(std::uint64_t index) const;

 private:
  Array draw(RandomCall::Kind, const Shape&, DType, Device, double a, double b);

  std::uint64_t seed_;
  std::uint64_t stream_;
  std::uint64_t counter_ = 0;  // elements drawn
};

}  // namespace tutti
