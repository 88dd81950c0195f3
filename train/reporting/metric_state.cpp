// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/reporting/metric_state.h>

#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/along_axis.h>
#include <tutti/backend/raise.h>

#include <charconv>

namespace tutti {

MetricRows read_metric_rows(std::string_view metric, std::vector<Tensor> columns, const Tensor& weights) {
  const NoGrad no_grad;
  if (weights.defined()) columns.push_back(weights);
  for (Tensor& column : columns) {
    if (column.rank() != 1 || column.length(0) != columns.front().length(0))
      raise<ShapeError>("[{}] needs rows [n] and as many weights, got {} beside {}", metric, to_string(column.shape()),
                        to_string(columns.front().shape()));
    column = cast(column, DType::f64);
  }
  const auto n = static_cast<std::size_t>(columns.front().length(0));
  const std::vector<double> numbers = stack(columns).to_vector<double>();
  MetricRows rows;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const auto begin = numbers.begin() + static_cast<std::ptrdiff_t>(i * n);
    rows.columns.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(n));
  }
  rows.weights.assign(n, 1.0);
  if (!weights.defined()) return rows;
  rows.weights = std::move(rows.columns.back());
  rows.columns.pop_back();
  for (const double weight : rows.weights)
    if (!(weight >= 0.0)) raise("[{}] a row cannot have the weight {}", metric, weight);
  return rows;
}

void check_class_rows(std::string_view metric, const Tensor& logits, const Tensor& targets) {
  if (logits.rank() != 2 || targets.rank() != 1 || logits.length(0) != targets.length(0))
    raise<ShapeError>("[{}] needs logits [n, classes] and targets [n], got {} and {}", metric,
                      to_string(logits.shape()), to_string(targets.shape()));
  if (is_floating(targets.dtype()))
    raise<DTypeError>("[{}] targets are class numbers, got {}", metric, to_string(targets.dtype()));
}

MetricRows read_class_hits(std::string_view metric, const Tensor& logits, const Tensor& targets, std::int64_t k,
                           const Tensor& weights) {
  const NoGrad no_grad;
  const Tensor largest =
      k == 1 ? argmax(logits, 1) == targets : any_true(topk(logits, k, 1).indices == expand_dims(targets, 1), {1});
  const Tensor hits = where(any_true(logits != logits, {1}), 0.0, cast(largest, DType::f64));  // a NaN is the largest
  MetricRows rows = read_metric_rows(metric, {hits, targets}, weights);
  for (std::size_t i = 0; i < rows.weights.size(); ++i)
    if (const double target = rows.columns[1][i];
        rows.weights[i] > 0.0 && !(target >= 0.0 && target < static_cast<double>(logits.length(1))))
      raise<DataError>("[{}] row {}: target {} is none of the {} classes", metric, i, target, logits.length(1));
  return rows;
}

MetricState::MetricState(std::string_view metric, const std::string& text) : metric_(metric) {
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    double& number = numbers_.emplace_back();
    const auto [after, error] = std::from_chars(at, end, number);
    if (error != std::errc() || (after != end && *after != ' '))
      raise<DataError>("[{}] \"{}\" is not its state", metric_, text.substr(0, 80));
    at = after == end ? end : after + 1;
  }
}

void MetricState::put(double number) { numbers_.push_back(number); }

void MetricState::put(const ExactSum& sum) {
  put(static_cast<double>(sum.partials().size()));
  for (const double partial : sum.partials()) put(partial);
}

double MetricState::take() {
  if (taken_ == numbers_.size()) raise<DataError>("[{}] its state has more than {} numbers", metric_, numbers_.size());
  return numbers_[taken_++];
}

ExactSum MetricState::take_sum() {
  ExactSum sum;
  for (double count = take(); count > 0.0; --count) sum.add(take());
  return sum;
}

void MetricState::end() const {
  if (taken_ != numbers_.size())
    raise<DataError>("[{}] its state has {} numbers, not {}", metric_, taken_, numbers_.size());
}

std::string MetricState::text() const {
  std::string text;
  for (const double number : numbers_) text += fmt::format("{}{}", text.empty() ? "" : " ", number);
  return text;
}

}  // namespace tutti
