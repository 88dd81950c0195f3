// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/progress.h>

#include <fmt/format.h>

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>

namespace tutti {
namespace {

constexpr int kDefaultWidth = 80;
constexpr int kWidestBar = 40;
constexpr int kNarrowestBar = 6;

int output_width(std::FILE* output) {
  if (const char* columns = std::getenv("COLUMNS")) {
    const std::string_view text = columns;
    int width = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), width);
    if (error == std::errc() && end == text.data() + text.size() && width > 0) return width;
  }
  winsize size{};
  if (ioctl(fileno(output), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return kDefaultWidth;
}

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0.0 || seconds > 359'999.0) return "--:--";
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{:02}:{:02}", whole / 60, whole % 60);
}

}  // namespace

Progress::Progress(std::int64_t total_steps, ProgressOptions options)
    : total_(total_steps), options_(std::move(options)), started_(options_.now()) {
  terminal_ = options_.terminal.value_or(isatty(fileno(options_.output)) == 1);
}

Progress::~Progress() { end_line(); }

void Progress::update(const ProgressStatus& status) {
  status_ = status;
  pending_ = true;
  const auto interval = terminal_ ? options_.terminal_interval : options_.line_interval;
  const bool due = (terminal_ && !shown_) || options_.now() - shown_.value_or(started_) >= interval;
  if (due || status.step >= total_) show();
}

void Progress::finish() {
  if (pending_) show();
  end_line();
}

void Progress::end_line() noexcept {
  if (!line_open_) return;
  std::fputc('\n', options_.output);
  std::fflush(options_.output);
  line_open_ = false;
}

std::string Progress::text(const ProgressStatus& status) const {
  const double seconds = std::chrono::duration<double>(options_.now() - started_).count();
  std::string text = fmt::format("step {}/{}", status.step, total_);
  if (status.loss) text += fmt::format("  loss {:.4f}", *status.loss);
  if (status.accuracy) text += fmt::format("  accuracy {:.2f}%", 100.0 * *status.accuracy);
  if (status.examples > 0 && seconds > 0.0)
    text += fmt::format("  {:.0f} images/s", static_cast<double>(status.examples) / seconds);
  if (status.step >= total_) return text + "  in " + duration_text(seconds);
  if (status.step <= 0) return text;
  const double left = seconds / static_cast<double>(status.step) * static_cast<double>(total_ - status.step);
  return text + "  ETA " + duration_text(left);
}

/// "label [####    ] text", cut to the width; the bar takes what the text leaves.
std::string Progress::bar(const std::string& text) const {
  // The last column stays free: a character there makes some terminals wrap.
  const int width = std::max(options_.width.value_or(output_width(options_.output)) - 1, 1);
  std::string line = options_.label.empty() ? "" : options_.label + " ";
  const int room = width - static_cast<int>(line.size() + text.size()) - 3;
  if (room >= kNarrowestBar) {
    const auto length = static_cast<std::size_t>(std::min(room, kWidestBar));
    const double part = total_ > 0 ? static_cast<double>(status_.step) / static_cast<double>(total_) : 1.0;
    const auto filled = static_cast<std::size_t>(std::clamp(part, 0.0, 1.0) * static_cast<double>(length));
    line += "[" + std::string(filled, '#') + std::string(length - filled, ' ') + "] ";
  }
  line += text;
  if (line.size() > static_cast<std::size_t>(width)) line.resize(static_cast<std::size_t>(width));
  return line;
}

void Progress::show() {
  std::string what = text(status_);
  if (terminal_) {
    what = "\r\x1b[K" + bar(what);  // back to the first column, erase to the end of the line
  } else {
    if (!options_.label.empty()) what.insert(0, options_.label + "  ");
    what += '\n';
  }
  std::fputs(what.c_str(), options_.output);
  std::fflush(options_.output);
  line_open_ = terminal_;
  shown_ = options_.now();
  pending_ = false;
}

}  // namespace tutti
