// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/progress.h>

#include <tutti/backend/log.h>
#include <tutti/backend/process/deadline.h>
#include <tutti/backend/process/duration_text.h>

#include <fmt/format.h>

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

namespace tutti {
namespace {

constexpr const char* kClearLine = "\r\x1b[K";  // back to the first column, erase to the end of the line
constexpr int kDefaultWidth = 80;
constexpr int kWidestBar = 40;
constexpr int kNarrowestBar = 6;

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

int output_width(std::FILE* output) {
  const std::string_view columns = environment("COLUMNS");
  int width = 0;
  const auto [end, error] = std::from_chars(columns.data(), columns.data() + columns.size(), width);
  if (error == std::errc() && end == columns.data() + columns.size() && width > 0) return width;
  winsize size{};
  if (ioctl(fileno(output), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return kDefaultWidth;
}

/// Terminals show a character of UTF-8 in one column, mostly; bytes behind its first are 0x80 to 0xbf.
bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }

int columns_of(std::string_view text) { return static_cast<int>(std::ranges::count_if(text, begins_character)); }

void cut(std::string& text, int columns) {
  for (std::size_t i = 0; i < text.size(); ++i)
    if (begins_character(text[i]) && columns-- == 0) return text.resize(i);
}

std::string rate_text(double rate) {
  return rate < 99.5 ? fmt::format("  {:.2g} ", rate) : fmt::format("  {:.0f} ", rate);
}

bool draws_over(std::FILE* output) {
  const std::string_view ci = environment("CI");
  const bool integration = !ci.empty() && ci != "false" && ci != "0";
  const std::string_view term = environment("TERM");
  return !integration && !term.empty() && term != "dumb" && isatty(fileno(output)) == 1;
}

}  // namespace

Progress::Progress(std::int64_t total_steps, ProgressOptions options)
    : total_(total_steps), options_(std::move(options)), started_(options_.now()) {
  options_.quiet = bounded_wait("progress, quiet", options_.quiet);
  options_.terminal_interval = bounded_wait("progress, terminal_interval", options_.terminal_interval);
  options_.line_interval = bounded_wait("progress, line_interval", options_.line_interval);
  options_.widest_interval = bounded_wait("progress, widest_interval", options_.widest_interval);
  if (options_.output == nullptr && !has_log_sink()) options_.output = stderr;
  terminal_ = options_.output != nullptr && options_.terminal.value_or(draws_over(options_.output));
}

Progress::~Progress() { end_line(); }

void Progress::begin() {
  status_.step = options_.first_step;
  if (terminal_ && !is_quiet()) show();
}

void Progress::update(const ProgressStatus& status) {
  status_ = status;
  pending_ = true;
  if (is_quiet()) return;
  const auto now = options_.now();
  const bool due = (terminal_ && !shown_) || now - shown_.value_or(started_) >= interval(now);
  if (due || is_last(status)) show();
}

std::chrono::nanoseconds Progress::interval(ProgressOptions::Clock::time_point now) const {
  if (terminal_) return options_.terminal_interval;
  const std::chrono::nanoseconds twentieth = (now - started_) / 20;
  return std::max<std::chrono::nanoseconds>(options_.line_interval,
                                            std::min<std::chrono::nanoseconds>(twentieth, options_.widest_interval));
}

void Progress::finish() {
  if (pending_ && !is_quiet()) show();
  end_line();
}

void Progress::print(std::string_view line) {
  if (options_.output == nullptr) return log_message(LogLevel::info, line);
  std::string text(line);
  if (line_open_) text.insert(0, kClearLine);
  text += '\n';
  if (line_open_) text += bar();
  std::fputs(text.c_str(), options_.output);
  std::fflush(options_.output);
}

void Progress::relabel(std::string label) { options_.label = std::move(label); }

void Progress::hide() {
  if (!line_open_) return;
  std::fputs(kClearLine, options_.output);
  std::fflush(options_.output);
  line_open_ = false;
  shown_.reset();
  pending_ = true;
}

void Progress::end_line() noexcept {
  if (!line_open_) return;
  std::fputc('\n', options_.output);
  std::fflush(options_.output);
  line_open_ = false;
}

// Brief: without what can be done without.
std::string Progress::text(bool brief) const {
  const ProgressStatus& status = status_;
  const double seconds = std::chrono::duration<double>(options_.now() - started_).count();
  std::string text = fmt::format("{} {}", options_.step, status.step);
  if (total_ > 0) text += fmt::format("/{}", total_);
  if (status.loss) text += fmt::format("  loss {:.4f}", *status.loss);
  if (status.accuracy && !(brief && status.validation))
    text += fmt::format("  accuracy {:.2f}%", 100.0 * *status.accuracy);
  if (status.validation) text += fmt::format("  validation {:.2f}%", 100.0 * *status.validation);
  if (status.examples > 0 && seconds > 0.0 && !brief)
    text += rate_text(static_cast<double>(status.examples) / seconds) + options_.unit + "/s";
  if (is_last(status)) return text + "  in " + duration_text(seconds);
  const std::int64_t done = status.step - options_.first_step;
  if (done <= 0 || total_ <= 0) return text;
  const double left = seconds / static_cast<double>(done) * static_cast<double>(total_ - status.step);
  return text + "  ETA " + duration_text(left);
}

/// "label [####    ] text", where need be a brief one, cut to the width; the bar takes what the text leaves.
std::string Progress::bar() const {
  // The last column stays free: a character there makes some terminals wrap.
  const int width = std::max(options_.width.value_or(output_width(options_.output)) - 1, 1);
  std::string line = options_.label.empty() ? "" : options_.label + " ";
  std::string text = this->text(false);
  if (columns_of(line) + columns_of(text) > width) text = this->text(true);
  const int room = width - columns_of(line) - columns_of(text) - 3;
  if (total_ > 0 && room >= kNarrowestBar) {
    const auto length = static_cast<std::size_t>(std::min(room, kWidestBar));
    const double part = static_cast<double>(status_.step) / static_cast<double>(total_);
    const auto filled = static_cast<std::size_t>(std::clamp(part, 0.0, 1.0) * static_cast<double>(length));
    line += "[" + std::string(filled, '#') + std::string(length - filled, ' ') + "] ";
  }
  line += text;
  cut(line, width);
  return line;
}

void Progress::show() {
  if (terminal_) {
    std::fputs((kClearLine + bar()).c_str(), options_.output);
    std::fflush(options_.output);
    line_open_ = true;
  } else {
    print((options_.label.empty() ? "" : options_.label + "  ") + text(false));
  }
  shown_ = options_.now();
  pending_ = false;
}

}  // namespace tutti
