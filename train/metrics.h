// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tensor.h>

#include <concepts>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace tutti {

/// The mean of what was added so far, each value counted `weight` times.
class RunningAverage {
 public:
  void add(double value, double weight = 1.0) {
    if (weight == 0.0) return;  // an empty batch's NaN counts for nothing
    sum_ += value * weight;
    weight_ += weight;
  }
  double mean() const noexcept { return weight_ > 0.0 ? sum_ / weight_ : 0.0; }  ///< 0 before the first value
  double weight() const noexcept { return weight_; }
  void reset() { *this = {}; }

 private:
  double sum_ = 0.0;
  double weight_ = 0.0;
};

/// How many rows of logits [n, classes] have their largest value at targets [n]. Waits for the device.
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
  enum class Mode : std::uint8_t { replace, append };
  using Field = std::pair<std::string_view, MetricValue>;

  explicit MetricsWriter(std::string path, Mode = Mode::replace);  ///< throws DataError if it cannot be opened
  void write(std::initializer_list<Field> fields);                 ///< throws DataError naming the path
  const std::string& path() const noexcept { return path_; }

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };

  std::string path_;
  std::unique_ptr<std::FILE, CloseFile> file_;
};

}  // namespace tutti
