// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tutti {

/// The order in which epochs visit the examples of a data set. Immutable: may be used from several threads.
class Sampler {
 public:
  Sampler() = default;
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;
  virtual ~Sampler() = default;

  virtual std::int64_t examples() const = 0;  ///< size of the data set
  virtual std::int64_t draws() const = 0;     ///< examples drawn in an epoch
  /// The numbers of an epoch's examples, from 0: `draws()` of them, each below `examples()`. A function of the number.
  virtual std::vector<std::int64_t> order(std::int64_t epoch) const = 0;
  /// All that the order depends on: samplers that say the same give the same. Positions of streams are compared by it.
  virtual std::string description() const = 0;
};

// All of these throw Error unless there is an example to draw, and a positive number of draws.

std::shared_ptr<const Sampler> sequential(std::int64_t examples);  ///< 0, 1, ... in every epoch
/// Draws without replacement: each example once in an epoch, every order as likely.
std::shared_ptr<const Sampler> shuffled(std::int64_t examples, std::uint64_t seed);
/// Draws with replacement: each draw is any example, independent of the others.
std::shared_ptr<const Sampler> with_replacement(std::int64_t examples, std::int64_t draws, std::uint64_t seed);
/// Draws with replacement, example i with probability weights[i] / sum. Throws Error for a weight that is negative or
/// not finite, and if all are 0. A draw takes time logarithmic in the number of examples.
std::shared_ptr<const Sampler> weighted(const std::vector<double>& weights, std::int64_t draws, std::uint64_t seed);

}  // namespace tutti
