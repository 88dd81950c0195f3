// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/data/samplers.h>

#include <tutti/backend/raise.h>
#include <tutti/backend/random.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace tutti {
namespace {

Generator generator_of(std::uint64_t seed, std::int64_t epoch) {
  return Generator(seed).split(static_cast<std::uint64_t>(epoch));
}

void check(const char* name, std::int64_t examples, std::int64_t draws) {
  if (examples < 1) raise("[{}] {} examples: there is nothing to draw", name, examples);
  if (draws < 1) raise("[{}] {} draws in an epoch: there must be one at least", name, draws);
}

class Sequential final : public Sampler {
 public:
  explicit Sequential(std::int64_t examples) : examples_(examples) { check("sequential", examples, examples); }

  std::int64_t examples() const override { return examples_; }
  std::int64_t draws() const override { return examples_; }
  std::vector<std::int64_t> order(std::int64_t) const override {
    std::vector<std::int64_t> order(static_cast<std::size_t>(examples_));
    std::iota(order.begin(), order.end(), 0);
    return order;
  }
  std::string description() const override { return "sequential"; }

 private:
  std::int64_t examples_;
};

class Shuffled final : public Sampler {
 public:
  Shuffled(std::int64_t examples, std::uint64_t seed) : examples_(examples), seed_(seed) {
    check("shuffled", examples, examples);
  }

  std::int64_t examples() const override { return examples_; }
  std::int64_t draws() const override { return examples_; }
  std::vector<std::int64_t> order(std::int64_t epoch) const override {
    return generator_of(seed_, epoch).permutation(examples_);
  }
  std::string description() const override { return fmt::format("shuffled, seed {}", seed_); }

 private:
  std::int64_t examples_;
  std::uint64_t seed_;
};

class WithReplacement final : public Sampler {
 public:
  WithReplacement(std::int64_t examples, std::int64_t draws, std::uint64_t seed)
      : examples_(examples), draws_(draws), seed_(seed) {
    check("with_replacement", examples, draws);
  }

  std::int64_t examples() const override { return examples_; }
  std::int64_t draws() const override { return draws_; }
  std::vector<std::int64_t> order(std::int64_t epoch) const override {
    Generator random = generator_of(seed_, epoch);
    std::vector<std::int64_t> order(static_cast<std::size_t>(draws_));
    for (std::int64_t& example : order)
      example = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(examples_)));
    return order;
  }
  std::string description() const override { return fmt::format("with replacement, {} draws, seed {}", draws_, seed_); }

 private:
  std::int64_t examples_;
  std::int64_t draws_;
  std::uint64_t seed_;
};

/// By inversion: a uniform number's place among the running sums of the weights.
class Weighted final : public Sampler {
 public:
  Weighted(const std::vector<double>& weights, std::int64_t draws, std::uint64_t seed) : draws_(draws), seed_(seed) {
    check("weighted", static_cast<std::int64_t>(weights.size()), draws);
    sums_.reserve(weights.size());
    double sum = 0.0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (!(weights[i] >= 0.0 && std::isfinite(weights[i]))) raise("[weighted] weight {} is {}", i, weights[i]);
      sums_.push_back(sum += weights[i]);
      digest_ = (digest_ ^ std::bit_cast<std::uint64_t>(weights[i])) * 0x100000001b3U;  // in FNV-1a's way
    }
    if (!(sum > 0.0 && std::isfinite(sum))) raise("[weighted] the weights' sum is {}", sum);
  }

  std::int64_t examples() const override { return static_cast<std::int64_t>(sums_.size()); }
  std::int64_t draws() const override { return draws_; }
  std::vector<std::int64_t> order(std::int64_t epoch) const override {
    Generator random = generator_of(seed_, epoch);
    // What rounds up to the whole sum belongs to the last example that has a weight.
    const auto last = std::ranges::lower_bound(sums_, sums_.back());
    std::vector<std::int64_t> order(static_cast<std::size_t>(draws_));
    for (std::int64_t& example : order) {
      const double uniform = static_cast<double>(random.next_u64() >> 11U) * 0x1p-53;
      const auto place = std::min(std::ranges::upper_bound(sums_, uniform * sums_.back()), last);
      example = place - sums_.begin();
    }
    return order;
  }
  std::string description() const override {
    return fmt::format("weighted by {:016x}, {} draws, seed {}", digest_, draws_, seed_);
  }

 private:
  std::vector<double> sums_;
  std::int64_t draws_;
  std::uint64_t seed_;
  std::uint64_t digest_ = 0xcbf29ce484222325U;
};

}  // namespace

std::shared_ptr<const Sampler> sequential(std::int64_t examples) { return std::make_shared<Sequential>(examples); }

std::shared_ptr<const Sampler> shuffled(std::int64_t examples, std::uint64_t seed) {
  return std::make_shared<Shuffled>(examples, seed);
}

std::shared_ptr<const Sampler> with_replacement(std::int64_t examples, std::int64_t draws, std::uint64_t seed) {
  return std::make_shared<WithReplacement>(examples, draws, seed);
}

std::shared_ptr<const Sampler> weighted(const std::vector<double>& weights, std::int64_t draws, std::uint64_t seed) {
  return std::make_shared<Weighted>(weights, draws, seed);
}

}  // namespace tutti
