// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tensor.h>
#include <tutti/train/reporting/exact_sum.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Parts that metrics are made with: reading their operands, and their state as text.

namespace tutti {

/// Numbers that a metric reads of a batch of n rows: columns, each of n numbers, and the weights of the rows (1 by
/// default).
struct MetricRows {
  std::vector<std::vector<double>> columns;
  std::vector<double> weights;
};

/// Tensors [n] of one device, and weights [n] or undefined, read at once. Throws ShapeError, naming the metric, for
/// other shapes, and Error for a negative weight or NaN among them.
MetricRows read_metric_rows(std::string_view metric, std::vector<Tensor> columns, const Tensor& weights);

/// Checks logits [n, classes] beside targets [n], integers: ShapeError or DTypeError naming the metric.
void check_class_rows(std::string_view metric, const Tensor& logits, const Tensor& targets);

/// Reads which rows have their target among the k largest of their logits, into the first column (1, else 0, also for
/// those with a NaN). DataError naming the row for a target that is none of the classes, unless its weight is 0.
MetricRows read_class_hits(std::string_view metric, const Tensor& logits, const Tensor& targets, std::int64_t k,
                           const Tensor& weights = {});

/// Numbers as text that gives back every bit.
class MetricState {
 public:
  MetricState() = default;
  MetricState(std::string_view metric, const std::string& text);  ///< throws DataError for a text that is none

  void put(double number);
  void put(const ExactSum&);
  double take();  ///< takes a number, in the order put; throws DataError when there is none left
  ExactSum take_sum();
  bool at_end() const noexcept { return taken_ == numbers_.size(); }
  void end() const;  ///< throws DataError if there is more
  std::string text() const;

 private:
  std::string metric_;
  std::vector<double> numbers_;
  std::size_t taken_ = 0;
};

}  // namespace tutti
