// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/reporting/auc.h>

#include <tutti/backend/raise.h>
#include <tutti/train/reporting/metric_state.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tutti {

void Auc::add(const Tensor& scores, const Tensor& targets, const Tensor& weights) {
  if (scores.rank() == 1 && scores.size() == 0 && targets.shape() == scores.shape()) return;
  const MetricRows rows = read_metric_rows("Auc", {scores, targets}, weights);
  std::vector<Row> added;
  for (std::size_t i = 0; i < rows.weights.size(); ++i) {
    const double target = rows.columns[1][i];
    if (rows.weights[i] == 0.0) continue;
    if (target != 0.0 && target != 1.0) raise<DataError>("[Auc] row {}: the target is {}, not 0 or 1", i, target);
    added.push_back({rows.columns[0][i], target == 1.0 ? rows.weights[i] : -rows.weights[i]});
  }
  rows_.insert(rows_.end(), added.begin(), added.end());
}

void Auc::merge(const Auc& other) {
  const std::size_t count = other.rows_.size();  // it may be this one
  rows_.reserve(rows_.size() + count);
  for (std::size_t i = 0; i < count; ++i) rows_.push_back(other.rows_[i]);
}

double Auc::value() const {
  constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();
  if (std::ranges::any_of(rows_, [](const Row& row) { return std::isnan(row.score); })) return kUndefined;
  std::vector<Row> rows = rows_;
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return (a <=> b) < 0; });
  double below = 0.0;      // negative weight with a lower score
  double positives = 0.0;  // so far
  double pairs = 0.0;      // that are in order, equal ones half
  for (auto row = rows.begin(); row != rows.end();) {
    double negative = 0.0;
    double positive = 0.0;
    for (const double score = row->score; row != rows.end() && row->score == score; ++row)
      (row->weight < 0.0 ? negative : positive) += std::abs(row->weight);
    pairs += positive * (below + 0.5 * negative);
    below += negative;
    positives += positive;
  }
  return below > 0.0 && positives > 0.0 ? pairs / (below * positives) : kUndefined;
}

std::string Auc::to_text() const {
  MetricState state;
  for (const auto& [score, weight] : rows_) {
    state.put(score);
    state.put(weight);
  }
  return state.text();
}

void Auc::load_text(const std::string& text) {
  MetricState state("Auc", text);
  std::vector<Row> rows;
  while (!state.at_end()) {
    const double score = state.take();
    rows.push_back({score, state.take()});
  }
  rows_ = std::move(rows);
}

}  // namespace tutti
