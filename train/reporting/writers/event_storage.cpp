// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/reporting/writers/event_storage.h>

#include <tutti/backend/raise.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <numeric>

namespace tutti {
namespace {

constexpr std::string_view kTitle = "tutti events 2";
constexpr std::string_view kUnknown = "unknown";  // up to where the values are written

/// Takes words and numbers off the front of a text of lines.
class TextReader {
 public:
  explicit TextReader(std::string_view text) : rest_(text) {}

  std::string_view until(char end) {
    const std::size_t length = rest_.find(end);
    if (length == std::string_view::npos) fail();
    const std::string_view word = rest_.substr(0, length);
    rest_.remove_prefix(length + 1);
    return word;
  }
  template <class T> T number(char end) { return number_of<T>(until(end)); }
  template <class T> T number_of(std::string_view word) const {
    T value{};
    const auto [last, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || last != word.data() + word.size()) fail();
    return value;
  }
  void expect(bool holds) const {
    if (!holds) fail();
  }
  bool at_end() const { return rest_.empty(); }

 private:
  [[noreturn]] void fail() const {
    raise<DataError>("[EventStorage] not the text of an event storage, before '{}'", rest_.substr(0, 40));
  }
  std::string_view rest_;
};

bool is_name(std::string_view name) {
  return !name.empty() && name.back() != '/' &&
         std::ranges::none_of(name, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

EventStorage::Series parse_series(TextReader& reader) {
  EventStorage::Series series;
  const std::string_view hint = reader.until(' ');
  reader.expect(hint == "median" || hint == "none");
  series.smoothing = hint == "median" ? EventStorage::Smoothing::median : EventStorage::Smoothing::none;
  const auto count = reader.number<std::size_t>(' ');
  series.name = reader.until('\n');
  reader.expect(is_name(series.name));
  for (std::size_t i = 0; i < count; ++i) {
    const auto iteration = reader.number<std::int64_t>(' ');
    reader.expect(series.history.empty() || iteration > series.history.back().iteration);
    series.history.push_back({iteration, reader.number<double>('\n')});
  }
  return series;
}

}  // namespace

EventStorage::EventStorage(std::int64_t start_iteration, EventStorageOptions options)
    : options_(options), iteration_(start_iteration) {
  if (options.history == 0 || options.window == 0)
    raise<Error>("[EventStorage] history and window must be at least 1, got {} and {}", options.history,
                 options.window);
}

void EventStorage::set_iteration(std::int64_t iteration) {
  if (iteration < iteration_) {
    for (Series& series : series_)
      while (!series.history.empty() && series.history.back().iteration >= iteration) series.history.pop_back();
    if (written_) written_ = std::min(*written_, iteration - 1);
    starting_ = true;
  }
  iteration_ = iteration;
}

EventStorage::Series& EventStorage::series_of(std::string_view name, Smoothing smoothing) {
  // Steps put their values in one order, mostly: the next name is a look away.
  std::size_t index = expected_ < series_.size() ? expected_ : 0;
  if (index == series_.size() || series_[index].name != name) {
    const auto known = indices_.find(name);
    index = known == indices_.end() ? add_series(name) : known->second;
  }
  expected_ = index + 1;
  series_[index].smoothing = smoothing;
  return series_[index];
}

std::size_t EventStorage::add_series(std::string_view name) {
  if (!is_name(name))
    raise<DataError>("[put_scalar] '{}' is no name: it is empty, ends with '/' or has control characters", name);
  indices_.emplace(name, series_.size());
  series_.emplace_back(std::string(name), Smoothing::none, std::deque<Scalar>{});
  return series_.size() - 1;
}

void EventStorage::put_scalar(std::string_view name, double value, Smoothing smoothing) {
  const std::size_t scope = prefix_.size();
  prefix_.append(name);  // the whole name, without a string of its own
  struct Restore {
    std::string& prefix;
    std::size_t length;
    ~Restore() { prefix.resize(length); }
  } const restore{prefix_, scope};
  auto& history = series_of(prefix_, smoothing).history;
  if (!history.empty() && history.back().iteration == iteration_) history.pop_back();
  if (history.size() == options_.history) history.pop_front();
  history.push_back({iteration_, value});
  if (written_ && *written_ >= iteration_) written_ = iteration_ - 1;  // this one is not
  if (starting_) starts_.push_back(iteration_);
  starting_ = false;
}

void EventStorage::put_scalars(std::initializer_list<std::pair<std::string_view, double>> scalars,
                               Smoothing smoothing) {
  for (const auto& [name, value] : scalars) put_scalar(name, value, smoothing);
}

EventStorage::NameScope EventStorage::name_scope(std::string_view name) { return {*this, name}; }

const EventStorage::Series* EventStorage::find(std::string_view name) const {
  const auto known = indices_.find(name);
  return known == indices_.end() ? nullptr : &series_[known->second];
}

std::optional<EventStorage::Scalar> EventStorage::latest(std::string_view name) const {
  const Series* series = find(name);
  if (series == nullptr || series->history.empty()) return std::nullopt;
  return series->history.back();
}

std::optional<double> EventStorage::median_of(const Series& series) const {
  const std::size_t count = std::min(options_.window, series.history.size());
  std::vector<double> values;
  for (std::size_t i = series.history.size() - count; i < series.history.size(); ++i)
    if (!std::isnan(series.history[i].value)) values.push_back(series.history[i].value);
  if (count == 0) return std::nullopt;
  if (values.size() < count) return std::nan("");  // a run that diverged must show it
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(count / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (count % 2 == 1) return *middle;
  return std::midpoint(*std::max_element(values.begin(), middle), *middle);
}

std::optional<double> EventStorage::median(std::string_view name) const {
  const Series* series = find(name);
  return series == nullptr ? std::nullopt : median_of(*series);
}

std::optional<double> EventStorage::smoothed(const Series& series) const {
  if (series.smoothing == Smoothing::median) return median_of(series);
  if (series.history.empty()) return std::nullopt;
  return series.history.back().value;
}

std::string EventStorage::to_text() const {
  const std::string written = written_ ? fmt::format("{}", *written_) : std::string(kUnknown);
  std::string text = fmt::format("{}\n{} {} {}\n", kTitle, iteration_, samples_, written);
  const auto out = std::back_inserter(text);
  for (const Series& series : series_) {
    fmt::format_to(out, "{} {} {}\n", series.smoothing == Smoothing::median ? "median" : "none", series.history.size(),
                   series.name);
    for (const auto& [iteration, value] : series.history) fmt::format_to(out, "{} {}\n", iteration, value);
  }
  return text;
}

std::function<void()> EventStorage::prepare_load(const std::string& text) {
  TextReader reader(text);
  reader.expect(reader.until('\n') == kTitle);
  const auto iteration = reader.number<std::int64_t>(' ');
  const auto samples = reader.number<double>(' ');
  std::optional<std::int64_t> written;
  if (const auto word = reader.until('\n'); word != kUnknown) written = reader.number_of<std::int64_t>(word);
  std::deque<Series> all;
  std::map<std::string, std::size_t, std::less<>> indices;
  while (!reader.at_end()) {
    Series& series = all.emplace_back(parse_series(reader));
    while (series.history.size() > options_.history) series.history.pop_front();
    reader.expect(indices.emplace(series.name, all.size() - 1).second);
  }
  return [=, this, all = std::move(all), indices = std::move(indices)]() mutable {
    iteration_ = iteration;
    samples_ = samples;
    written_ = written;
    series_ = std::move(all);
    indices_ = std::move(indices);
    starting_ = true;
    if (const auto first = first_unwritten()) {
      starts_.push_back(*first);
      starting_ = false;
    }
  };
}

std::optional<std::int64_t> EventStorage::first_unwritten() const {
  std::optional<std::int64_t> first;
  if (!written_) return first;
  for (const Series& series : series_) {
    const auto unwritten = std::ranges::upper_bound(series.history, *written_, {}, &Scalar::iteration);
    if (unwritten != series.history.end()) first = std::min(first.value_or(unwritten->iteration), unwritten->iteration);
  }
  return first;
}

}  // namespace tutti
