// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/reporting/classification_metrics.h>

#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/along_axis.h>
#include <tutti/backend/raise.h>
#include <tutti/nn/losses/classification_loss.h>
#include <tutti/train/reporting/metric_state.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string_view>

namespace tutti {
namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

void add_rows(RunningAverage& average, const MetricRows& rows) {
  for (std::size_t i = 0; i < rows.weights.size(); ++i) average.add(rows.columns.front()[i], rows.weights[i]);
}

constexpr std::string_view kStatePrefix = "top ";
std::string state_prefix(std::int64_t k) { return fmt::format("{}{}: ", kStatePrefix, k); }

double share(double part, double all) { return all > 0.0 ? part / all : kUndefined; }

}  // namespace

Accuracy::Accuracy(std::int64_t k) : k_(k) {
  if (k < 1) raise("[Accuracy] k must be at least 1, got {}", k);
}

void Accuracy::add(const Tensor& logits, const Tensor& targets, const Tensor& weights) {
  check_class_rows("Accuracy", logits, targets);
  if (logits.length(1) < k_) raise<ShapeError>("[Accuracy] the {} largest of logits {}", k_, to_string(logits.shape()));
  if (targets.size() == 0) return;
  add_rows(hits_, read_class_hits("Accuracy", logits, targets, k_, weights));
}

std::string Accuracy::to_text() const { return fmt::format("{}{}", state_prefix(k_), hits_.to_text()); }

void Accuracy::load_text(const std::string& text) {
  const std::string prefix = state_prefix(k_);
  const bool own = text.starts_with(prefix);
  if (!own && text.starts_with(kStatePrefix))
    raise<DataError>("[Accuracy] \"{}\" is not a state of the {} largest", text.substr(0, 80), k_);
  hits_.load_text(own ? text.substr(prefix.size()) : text);  // states from before k was kept have no prefix
}

double Accuracy::value() const { return hits_.weight() > 0.0 ? hits_.mean() : kUndefined; }

void Perplexity::add(const Tensor& logits, const Tensor& targets, const Tensor& weights) {
  check_class_rows("Perplexity", logits, targets);
  if (targets.size() == 0) return;
  const NoGrad no_grad;
  const Tensor numbers = cast(targets, DType::i64);
  const Tensor known =
      weights.defined() && weights.shape() == targets.shape() ? where(weights != 0, numbers, 0) : numbers;
  const Tensor wide = logits.dtype() == DType::f64 ? logits : cast(logits, DType::f32);
  add_rows(losses_, read_metric_rows("Perplexity", {cross_entropy(wide, known, LossReduction::none)}, weights));
}

double Perplexity::value() const { return losses_.weight() > 0.0 ? std::exp(losses_.mean()) : kUndefined; }

ConfusionMatrix::ConfusionMatrix(std::int64_t classes) : classes_(classes) {
  if (classes < 1) raise("[ConfusionMatrix] needs at least one class, got {}", classes);
  reset();
}

void ConfusionMatrix::reset() { counts_.assign(static_cast<std::size_t>(classes_ * classes_), 0.0); }

void ConfusionMatrix::add(const Tensor& predictions, const Tensor& targets, const Tensor& weights) {
  const bool numbers = predictions.rank() == 1;
  if (!numbers) check_class_rows("ConfusionMatrix", predictions, targets);
  if (!numbers && predictions.length(1) != classes_)
    raise<ShapeError>("[ConfusionMatrix] logits {} are not of {} classes", to_string(predictions.shape()), classes_);
  if (targets.size() == 0) return;
  const NoGrad no_grad;
  std::vector<Tensor> columns{numbers ? predictions : argmax(predictions, 1), targets};
  if (!numbers) columns.push_back(max(predictions, {1}));  // NaN wins
  const MetricRows rows = read_metric_rows("ConfusionMatrix", columns, weights);
  const auto is_class = [&](double number) {
    return number >= 0.0 && number < static_cast<double>(classes_) && number == std::floor(number);
  };
  std::vector<double> counts = counts_;
  for (std::size_t i = 0; i < rows.weights.size(); ++i) {
    const double prediction = rows.columns[0][i];
    const double target = rows.columns[1][i];
    if (rows.weights[i] == 0.0) continue;
    if (!numbers && std::isnan(rows.columns[2][i]))
      raise<DataError>("[ConfusionMatrix] row {}: its logits have NaN, which is of no class", i);
    if (!is_class(prediction) || !is_class(target))
      raise<DataError>("[ConfusionMatrix] row {}: class {} taken for {}, of {} classes", i, target, prediction,
                       classes_);
    counts[static_cast<std::size_t>(target) * static_cast<std::size_t>(classes_) +
           static_cast<std::size_t>(prediction)] += rows.weights[i];
  }
  counts_ = std::move(counts);
}

void ConfusionMatrix::merge(const ConfusionMatrix& other) {
  if (classes_ != other.classes_)
    raise<ShapeError>("[ConfusionMatrix] {} classes do not merge with {}", classes_, other.classes_);
  for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
}

double ConfusionMatrix::count(std::int64_t target, std::int64_t prediction) const {
  if (target < 0 || target >= classes_ || prediction < 0 || prediction >= classes_)
    raise<ShapeError>("[ConfusionMatrix] no place {}, {} among {} classes", target, prediction, classes_);
  return counts_[static_cast<std::size_t>(target * classes_ + prediction)];
}

double ConfusionMatrix::of_target(std::int64_t target) const {
  double sum = 0.0;
  for (std::int64_t prediction = 0; prediction < classes_; ++prediction) sum += count(target, prediction);
  return sum;
}

double ConfusionMatrix::of_prediction(std::int64_t prediction) const {
  double sum = 0.0;
  for (std::int64_t target = 0; target < classes_; ++target) sum += count(target, prediction);
  return sum;
}

double ConfusionMatrix::accuracy() const {
  double right = 0.0;
  for (std::int64_t c = 0; c < classes_; ++c) right += count(c, c);
  return share(right, std::accumulate(counts_.begin(), counts_.end(), 0.0));
}

double ConfusionMatrix::precision(std::int64_t c) const { return share(count(c, c), of_prediction(c)); }
double ConfusionMatrix::recall(std::int64_t c) const { return share(count(c, c), of_target(c)); }
double ConfusionMatrix::f1(std::int64_t c) const { return share(2.0 * count(c, c), of_target(c) + of_prediction(c)); }

std::string ConfusionMatrix::to_text() const {
  MetricState state;
  for (const double count : counts_) state.put(count);
  return state.text();
}

void ConfusionMatrix::load_text(const std::string& text) {
  MetricState state("ConfusionMatrix", text);
  std::vector<double> counts(counts_.size());
  for (double& count : counts) count = state.take();
  state.end();
  counts_ = std::move(counts);
}

}  // namespace tutti
