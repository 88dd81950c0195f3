// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/reporting/writers/event_rows.h>

#include <algorithm>

namespace tutti {

std::optional<std::int64_t> EventRows::restart(const EventStorage& storage) {
  const auto& starts = storage.starts();
  if (starts_seen_ == starts.size()) return std::nullopt;
  const auto first = starts.begin() + static_cast<std::ptrdiff_t>(starts_seen_);
  const std::int64_t start = *std::min_element(first, starts.end());
  starts_seen_ = starts.size();
  assumed_ = std::min(assumed_, start - 1);
  for (std::int64_t& written : written_) written = std::min(written, start - 1);
  return start;
}

void EventRows::assume_written(std::int64_t iteration) {
  assumed_ = iteration;
  for (std::int64_t& written : written_) written = std::max(written, iteration);
}

std::span<const EventRows::Value> EventRows::take(const EventStorage& storage) {
  const auto& series = storage.series();
  values_.clear();
  if (storage.starting()) return values_;  // it is not known yet from where on what was written is void
  written_.resize(series.size(), assumed_);
  for (std::size_t i = 0; i < series.size(); ++i) {
    const auto& history = series[i].history;
    for (auto at = history.rbegin(); at != history.rend() && at->iteration > written_[i]; ++at)
      values_.push_back({at->iteration, i, at->value});
    if (!history.empty()) written_[i] = std::max(written_[i], history.back().iteration);
  }
  const auto by_place = [](const Value& a, const Value& b) {
    return a.iteration != b.iteration ? a.iteration < b.iteration : a.series < b.series;
  };
  std::ranges::sort(values_, by_place);
  return values_;
}

std::span<const EventRows::Value> EventRows::take_row(std::span<const Value>& values) {
  std::size_t length = 0;
  while (length < values.size() && values[length].iteration == values.front().iteration) ++length;
  const auto row = values.first(length);
  values = values.subspan(length);
  return row;
}

}  // namespace tutti
