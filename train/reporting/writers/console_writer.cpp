// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/reporting/console_writer.h>

#include <tutti/backend/log.h>
#include <tutti/backend/process/duration_text.h>
#include <tutti/backend/progress.h>
#include <tutti/train/hooks/progress_bar.h>

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace tutti {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::min();

std::string seconds_text(double seconds) {
  return seconds < 1.0 ? fmt::format("{:.3g} ms", 1e3 * seconds) : fmt::format("{:.3f} s", seconds);
}

std::string value_text(const std::string& name, double value) {
  if (name.ends_with("time")) return seconds_text(value);
  if (name == "memory") return fmt::format("{:.0f} MiB", value / (1024.0 * 1024.0));
  return fmt::format("{:.4g}", value);
}

}  // namespace

ConsoleWriter::ConsoleWriter(ConsoleWriterOptions options) : options_(std::move(options)), started_(options_.now()) {}

void ConsoleWriter::write(const EventStorage& storage) {
  if (storage.starting()) return;
  if (starts_seen_ != storage.starts().size()) {
    first_iteration_ = storage.starts().back();
    if (starts_seen_ > 0) started_ = options_.now();
    starts_seen_ = storage.starts().size();
    std::ranges::fill(shown_, kNever);
  }
  shown_.resize(storage.series().size(), kNever);
  std::string values;
  for (std::size_t i = 0; i < shown_.size(); ++i) {
    const auto& series = storage.series()[i];
    if (series.history.empty() || series.history.back().iteration < std::max(shown_[i] + 1, first_iteration_)) continue;
    shown_[i] = series.history.back().iteration;
    if (!is_hidden(series.name))
      values += fmt::format("  {} {}", series.name, value_text(series.name, storage.smoothed(series).value()));
  }
  if (values.empty()) return;
  std::string line = fmt::format("iteration {}", storage.iteration());
  if (options_.iterations > 0) line += fmt::format("/{}", options_.iterations);
  line += values;
  if (const auto left = seconds_left(storage)) line += "  ETA " + duration_text(*left);
  if (options_.bar != nullptr) options_.bar->hide();
  if (options_.progress != nullptr) return options_.progress->print(line);
  if (options_.output == nullptr && has_log_sink()) return log_message(LogLevel::info, line);
  std::FILE* const output = options_.output == nullptr ? stdout : options_.output;
  std::fputs((line + "\n").c_str(), output);
  std::fflush(output);
}

std::optional<double> ConsoleWriter::seconds_left(const EventStorage& storage) const {
  const std::int64_t left = options_.iterations - storage.iteration() - 1;
  if (left <= 0) return std::nullopt;
  if (const auto time = storage.median("time")) return *time * static_cast<double>(left);
  const std::int64_t done = storage.iteration() - first_iteration_ + 1;
  if (done <= 0) return std::nullopt;
  const double seconds = std::chrono::duration<double>(options_.now() - started_).count();
  return seconds / static_cast<double>(done) * static_cast<double>(left);
}

bool ConsoleWriter::is_hidden(const std::string& name) const {
  return std::ranges::any_of(options_.hidden, [&](const std::string& begin) { return name.starts_with(begin); });
}

}  // namespace tutti
