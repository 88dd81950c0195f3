// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/reporting/metrics.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/raise.h>
#include <tutti/train/reporting/metric_state.h>

#include <nlohmann/json.hpp>

#include <algorithm>

namespace tutti {

void RunningAverage::add(double value, double weight) {
  if (!(weight >= 0.0)) raise("[RunningAverage] a value cannot have the weight {}", weight);
  if (weight == 0.0) return;
  sum_.add(value * weight);
  weight_.add(weight);
}

void RunningAverage::add(const Tensor& values, const Tensor& weights) {
  if (values.size() == 0 && !weights.defined()) return;
  const NoGrad no_grad;
  const MetricRows rows =
      read_metric_rows("RunningAverage", {values.rank() == 0 ? expand_dims(values, 0) : values}, weights);
  for (std::size_t i = 0; i < rows.weights.size(); ++i) add(rows.columns.front()[i], rows.weights[i]);
}

void RunningAverage::merge(const RunningAverage& other) {
  sum_.merge(other.sum_);
  weight_.merge(other.weight_);
}

double RunningAverage::mean() const {
  const double weight = weight_.value();
  return weight > 0.0 ? sum_.value() / weight : 0.0;
}

std::string RunningAverage::to_text() const {
  MetricState state;
  state.put(sum_);
  state.put(weight_);
  return state.text();
}

void RunningAverage::load_text(const std::string& text) {
  MetricState state("RunningAverage", text);
  RunningAverage loaded;
  loaded.sum_ = state.take_sum();
  loaded.weight_ = state.take_sum();
  state.end();
  *this = std::move(loaded);
}

std::int64_t count_correct(const Tensor& logits, const Tensor& targets) {
  check_class_rows("count_correct", logits, targets);
  if (targets.size() == 0) return 0;
  return std::ranges::count(read_class_hits("count_correct", logits, targets, 1).columns.front(), 1.0);
}

void MetricsWriter::write(std::initializer_list<Field> fields) {
  auto object = nlohmann::ordered_json::object();
  for (const auto& [name, value] : fields)
    std::visit([&, key = std::string(name)](const auto& known) { object[key] = known; }, value.variant());
  // Text that is not UTF-8 is replaced, not refused: a metric must not end a training run.
  const std::string line = object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  file_.write(line);
}

}  // namespace tutti
