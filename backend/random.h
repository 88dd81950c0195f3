// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>
#include <tutti/backend/calls/kernel_arguments.h>
#include <tutti/backend/formulas/philox.h>
#include <tutti/backend/process/lifetime_watch.h>

#include <cstdint>
#include <vector>

namespace tutti {

/// A seeded source of random arrays. Splittable: `split(i)` is independent of this one and of every other split, and
/// does not depend on what was drawn. Each call advances the counter by the number of elements drawn, so results do not
/// depend on shapes or dtypes before. One thread at a time.
class Generator {
 public:
  explicit Generator(std::uint64_t seed, std::uint64_t stream = 0) : seed_(seed), stream_(stream) {}
  /// The place where a generator stands; a generator made of it draws the same from there on.
  struct State {
    std::uint64_t seed = 0;
    std::uint64_t stream = 0;
    std::uint64_t counter = 0;  ///< elements drawn
  };
  explicit Generator(const State& state) : seed_(state.seed), stream_(state.stream), counter_(state.counter) {}
  State state() const noexcept { return {seed_, stream_, counter_}; }

  /// [low, high). Floating types only, else DTypeError; so for `normal`. bf16 and f16: those of f32, rounded.
  Array uniform(const Shape&, DType, Device, double low = 0.0, double high = 1.0);
  Array normal(const Shape&, DType, Device, double mean = 0.0, double standard_deviation = 1.0);
  /// A normal number on condition that it lies in [low, high] (ends as the type rounds them; infinite ones are none).
  /// Error unless low < high and some of the distribution lies between.
  Array truncated_normal(const Shape&, DType, Device, double mean, double standard_deviation, double low, double high);
  Array bernoulli(const Shape&, double probability, Device);  ///< bool: true where an f32 uniform number is below it
  std::uint64_t next_u64();                                   ///< 64 random bits for host code: shuffles, seeds
  std::uint64_t below(std::uint64_t bound);                   ///< uniform in [0, bound), without bias
  std::vector<std::int64_t> permutation(std::int64_t count);  ///< 0 ... count - 1, each order as likely
  Generator split(std::uint64_t index) const;
  /// The call that draws the next `count` elements of f32 or f64, for kernels that draw as they compute; to be made
  /// before anything else is drawn.
  RandomCall next(RandomCall, std::uint64_t count, DType);
  /// One that the next number of this one seeds. `next_u64` would do, but captured steps cannot follow that.
  Generator fork();

 private:
  friend class CapturedDraws;
  std::uint64_t advance(std::uint64_t count);  // place of a draw, to be asked at every draw (backend/random/draw_log.h)
  std::uint64_t host_number(std::uint64_t counter) const;
  Array draw(RandomCall, const Shape&, DType, Device);

  std::uint64_t seed_;
  std::uint64_t stream_;
  std::uint64_t counter_ = 0;  // elements drawn
  LifetimeWatch life_;
};

}  // namespace tutti
