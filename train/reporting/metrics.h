// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tensor.h>
#include <tutti/train/reporting/exact_sum.h>
#include <tutti/train/reporting/writers/line_file.h>

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace tutti {

/// The mean of what was added so far, each value counted `weight` times. Sums are exact: however values are divided
/// among devices, merging gives the same bits, so long as each value times its weight has no more than 53 of them (the
/// weight is a power of two, or both are f32).
class RunningAverage {
 public:
  /// Adds a value; one that weighs 0, an empty batch's NaN, counts for nothing. Error for a negative weight or NaN.
  void add(double value, double weight = 1.0);
  /// Losses [n] or [], with weights [n] (undefined: 1). Reads from the device once, which it waits for. ShapeError for
  /// other shapes, Error for negative weights.
  void add(const Tensor& values, const Tensor& weights = {});
  void merge(const RunningAverage&);
  double mean() const;  ///< 0 before the first value
  double weight() const { return weight_.value(); }
  void reset() { *this = {}; }
  std::string to_text() const;
  void load_text(const std::string&);  ///< throws DataError; nothing is changed then

 private:
  ExactSum sum_;
  ExactSum weight_;
};

/// How many rows of logits [n, classes] have their largest value at targets [n]; those with a NaN do not. DataError for
/// a target that is none of the classes. Waits for the device.
std::int64_t count_correct(const Tensor& logits, const Tensor& targets);

/// A number, a truth value or a text.
class MetricValue {
 public:
  MetricValue(bool value) : value_(value) {}
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  MetricValue(T value) : value_(static_cast<std::int64_t>(value)) {}
  template <std::floating_point T> MetricValue(T value) : value_(static_cast<double>(value)) {}
  MetricValue(const char* value) : value_(std::string(value)) {}
  MetricValue(std::string value) : value_(std::move(value)) {}

  using Variant = std::variant<bool, std::int64_t, double, std::string>;
  const Variant& variant() const noexcept { return value_; }

 private:
  Variant value_;
};

/// Writes one JSON object a line: `metrics.write({{"step", 12}, {"loss", 0.31}})`. Each line reaches the operating
/// system before `write` returns, so that a run that is killed loses nothing. NaN and infinities are written as null.
/// Used by one thread at a time.
class MetricsWriter {
 public:
  using Mode = LineFile::Mode;
  using Field = std::pair<std::string_view, MetricValue>;

  explicit MetricsWriter(std::string path, Mode mode = Mode::replace)  ///< throws DataError if it cannot be opened
      : file_(std::move(path), mode) {}
  void write(std::initializer_list<Field> fields);  ///< throws DataError naming the path
  const std::string& path() const noexcept { return file_.path(); }

 private:
  LineFile file_;
};

}  // namespace tutti
