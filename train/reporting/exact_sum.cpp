// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/reporting/exact_sum.h>

#include <cmath>
#include <cstddef>
#include <utility>

namespace tutti {

void ExactSum::add(double value) {
  if (!partials_.empty() && !std::isfinite(partials_.back())) {
    partials_.back() += value;
    return;
  }
  std::size_t kept = 0;
  for (double partial : partials_) {
    if (std::abs(value) < std::abs(partial)) std::swap(value, partial);
    const double high = value + partial;
    const double low = partial - (high - value);  // what rounding lost
    if (low != 0.0 && std::isfinite(high)) partials_[kept++] = low;
    value = high;
  }
  if (!std::isfinite(value)) kept = 0;
  partials_.resize(kept);
  if (value != 0.0) partials_.push_back(value);
}

void ExactSum::merge(const ExactSum& other) {
  const std::vector<double> partials = other.partials_;  // it may be this one
  for (const double partial : partials) add(partial);
}

double ExactSum::value() const {
  std::size_t left = partials_.size();
  if (left == 0) return 0.0;
  double high = partials_[--left];
  double low = 0.0;
  while (left > 0 && low == 0.0) {
    const double sum = high + partials_[--left];
    low = partials_[left] - (sum - high);
    high = sum;
  }
  // `high` is rounded to even where `low` is just half a place; a smaller partial behind it may tip the balance.
  if (left > 0 && (low < 0.0) == (partials_[left - 1] < 0.0)) {
    const double tipped = high + 2.0 * low;
    if (2.0 * low == tipped - high) high = tipped;
  }
  return high;
}

}  // namespace tutti
