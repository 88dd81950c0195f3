// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/train/reporting/metrics.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tutti {

// Metrics of classification over what was added since construction or `reset`. Partial results, of devices or of parts
// of a data set, merge to the bits that one would have got from all rows. `add` takes logits [n, classes], targets [n]
// (integers) and weights [n] (undefined: 1; what weighs 0 counts nothing, whatever it is), and reads from the device
// once, which it waits for. Values are NaN before the first row. A state is text for a checkpoint; `load_text` throws
// DataError for another. Errors of operands are ShapeError, DTypeError and, for negative weights, Error.

/// The share of rows whose target is among the k largest logits; of equal ones the first are larger (as argmax has it).
/// A row with a NaN is a miss.
class Accuracy {
 public:
  explicit Accuracy(std::int64_t k = 1);  ///< Error below 1

  /// ShapeError for fewer classes than k, DataError for a target that is none of them, and nothing is added.
  void add(const Tensor& logits, const Tensor& targets, const Tensor& weights = {});
  void merge(const Accuracy& other) { hits_.merge(other.hits_); }
  double value() const;
  void reset() { hits_.reset(); }
  std::string to_text() const;
  void load_text(const std::string& text);  ///< DataError for that of another k

 private:
  std::int64_t k_;
  RunningAverage hits_;
};

/// exp of the mean negative log-likelihood of the targets, in nats: Jelinek et al., "Perplexity: a measure of the
/// difficulty of speech recognition tasks" (1977).
class Perplexity {
 public:
  void add(const Tensor& logits, const Tensor& targets, const Tensor& weights = {});
  void add(double mean_loss, double tokens) { losses_.add(mean_loss, tokens); }  ///< takes a loss known already
  void merge(const Perplexity& other) { losses_.merge(other.losses_); }
  double value() const;
  void reset() { losses_.reset(); }
  std::string to_text() const { return losses_.to_text(); }
  void load_text(const std::string& text) { losses_.load_text(text); }

 private:
  RunningAverage losses_;
};

/// How often rows of each class were taken for each other. Merging sums of whole weights is exact, of others to
/// rounding.
class ConfusionMatrix {
 public:
  explicit ConfusionMatrix(std::int64_t classes);  ///< Error below 1

  /// `predictions` are logits [n, classes], or class numbers [n]. A class that is not in [0, classes) throws DataError
  /// and nothing is added; so do logits with NaN.
  void add(const Tensor& predictions, const Tensor& targets, const Tensor& weights = {});
  void merge(const ConfusionMatrix&);  ///< ShapeError for another number of classes

  double count(std::int64_t target, std::int64_t prediction) const;  ///< ShapeError out of range
  double accuracy() const;
  double precision(std::int64_t) const;  ///< share of what was taken for the class that is of it; NaN of nothing
  double recall(std::int64_t) const;     ///< share of what is of the class that was taken for it; NaN of nothing
  double f1(std::int64_t) const;         ///< 2 tp / (2 tp + fp + fn); NaN of nothing
  std::int64_t classes() const noexcept { return classes_; }

  void reset();
  std::string to_text() const;
  void load_text(const std::string&);

 private:
  double of_target(std::int64_t) const;
  double of_prediction(std::int64_t) const;

  std::int64_t classes_;
  std::vector<double> counts_;  // [target, prediction]
};

}  // namespace tutti
