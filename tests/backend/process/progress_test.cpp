// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/progress.h>

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace std::chrono_literals;

namespace {

/// A file as output and a clock that the test sets.
class Screen {
 public:
  Screen() : output_(std::tmpfile()) { REQUIRE(output_ != nullptr); }
  ~Screen() { std::fclose(output_); }

  ProgressOptions options(std::optional<bool> terminal, int width = 80) {
    return {.label = "epoch 1/2",
            .output = output_,
            .terminal = terminal,
            .width = width,
            .line_interval = 1s,
            .now = [this] { return now; }};
  }
  std::string text() const {
    std::string all(1 << 20, '\0');
    const ssize_t count = pread(fileno(output_), all.data(), all.size(), 0);
    all.resize(static_cast<std::size_t>(count));
    return all;
  }

  ProgressOptions::Clock::time_point now{};

 private:
  std::FILE* output_;
};

/// A variable of the environment for as long as this lives; nothing: unset.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    value == nullptr ? unsetenv(name) : setenv(name, value, 1);
  }
  ~Variable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

/// A terminal of 50 columns: `output` is what a program writes to, `text` what it then shows.
class PseudoTerminal {
 public:
  PseudoTerminal() : screen_(posix_openpt(O_RDWR | O_NOCTTY)) {
    REQUIRE(screen_ >= 0);
    REQUIRE(grantpt(screen_) == 0);
    REQUIRE(unlockpt(screen_) == 0);
    output = std::fopen(ptsname(screen_), "w");
    REQUIRE(output != nullptr);
    const winsize size{.ws_row = 24, .ws_col = 50, .ws_xpixel = 0, .ws_ypixel = 0};
    REQUIRE(ioctl(screen_, TIOCSWINSZ, &size) == 0);
    REQUIRE(fcntl(screen_, F_SETFL, O_NONBLOCK) == 0);
  }
  ~PseudoTerminal() {
    std::fclose(output);
    close(screen_);
  }
  std::string text() const {
    std::string all;
    char block[512];
    for (ssize_t count; (count = read(screen_, block, sizeof block)) > 0;)
      all.append(block, static_cast<std::size_t>(count));
    return all;
  }

  std::FILE* output = nullptr;

 private:
  int screen_;
};

std::string shown_by_terminal() {
  const PseudoTerminal terminal;
  {
    Progress progress(2, {.label = "größe", .output = terminal.output});
    progress.update({.step = 1, .loss = 2.0});
    progress.update({.step = 2, .loss = 1.0});
  }
  return terminal.text();
}

std::int64_t lines_in(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

}  // namespace

TEST_CASE("Progress: without a terminal, plain lines, one a second at most and the last") {
  Screen screen;
  Progress progress(100, screen.options(false));
  for (std::int64_t step = 1; step <= 100; ++step) {
    screen.now += 30ms;
    progress.update({.step = step, .examples = 32 * step, .loss = 1.0 / static_cast<double>(step), .accuracy = 0.5});
  }
  progress.finish();
  const std::string text = screen.text();
  CHECK(lines_in(text) == 3);  // at 1.02, 2.04 and 3.00 s
  CHECK(text.starts_with("epoch 1/2  step 34/100  loss 0.0294  accuracy 50.00%  1067 examples/s  ETA 00:02\n"));
  CHECK(text.ends_with("epoch 1/2  step 100/100  loss 0.0100  accuracy 50.00%  1067 examples/s  in 00:03\n"));
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find('\r') == std::string::npos);
}

TEST_CASE("Progress: a pipe is not a terminal") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  std::FILE* output = fdopen(ends[1], "w");
  {
    Progress progress(2, {.output = output});
    progress.update({.step = 1, .loss = 2.0});
    progress.update({.step = 2, .loss = 1.0});
    progress.finish();
  }
  std::fclose(output);
  char buffer[512];
  const ssize_t count = read(ends[0], buffer, sizeof buffer);
  close(ends[0]);
  REQUIRE(count > 0);
  const std::string text(buffer, static_cast<std::size_t>(count));
  CHECK(lines_in(text) == 1);
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.starts_with("step 2/2  loss 1.0000"));
}

TEST_CASE("Progress: on a terminal one line is drawn over and never wider than it") {
  for (const int width : {1, 10, 40, 60, 80, 200}) {
    CAPTURE(width);
    Screen screen;
    {
      Progress progress(3, screen.options(true, width));
      for (std::int64_t step = 1; step <= 3; ++step) {
        screen.now += 1s;
        progress.update({.step = step, .examples = step * 10, .loss = 0.25, .accuracy = 0.9});
      }
    }
    const std::string text = screen.text();
    CHECK(lines_in(text) == 1);  // from the destructor
    CHECK(text.ends_with("\n"));
    std::size_t begin = 0;
    int drawn = 0;
    while ((begin = text.find("\r\x1b[K", begin)) != std::string::npos) {
      begin += 4;
      const std::size_t end = std::min(text.find('\r', begin), text.find('\n', begin));
      CHECK(end - begin < static_cast<std::size_t>(std::max(width, 2)));
      ++drawn;
    }
    CHECK(drawn == 3);
  }
}

TEST_CASE("Progress: the bar grows, and gives way to the text") {
  Screen wide;
  Progress(4, wide.options(true, 100)).update({.step = 2, .loss = 0.5});
  CHECK(wide.text().find("[####################                    ]") != std::string::npos);
  Screen narrow;
  Progress(4, narrow.options(true, 40)).update({.step = 2, .loss = 0.5});
  CHECK(narrow.text().find('[', 4) == std::string::npos);
  CHECK(narrow.text().find("loss 0.5000") != std::string::npos);
}

TEST_CASE("Progress: where there is no room for all, the time left stays") {
  Screen screen;
  ProgressOptions options = screen.options(true, 80);
  options.first_step = 499;
  Progress progress(1800, options);
  screen.now += 1s;
  progress.update({.step = 500, .examples = 5000, .loss = 0.5, .accuracy = 0.9, .validation = 0.8});
  CHECK(screen.text() == "\r\x1b[Kepoch 1/2 [##        ] step 500/1800  loss 0.5000  validation 80.00%  ETA 21:40");
}

TEST_CASE("Progress: COLUMNS says how wide a terminal is") {
  const Variable columns("COLUMNS", "21");
  Screen screen;
  ProgressOptions options = screen.options(true);
  options.width.reset();
  Progress(400, options).update({.step = 200, .loss = 0.5});
  CHECK(screen.text() == "\r\x1b[Kepoch 1/2 step 200/4\n");
}

TEST_CASE("Progress: a terminal is drawn over as wide as it is") {
  const Variable no_columns("COLUMNS", nullptr);
  const Variable no_ci("CI", nullptr);
  const Variable term("TERM", "xterm");
  // The last column stays free; a terminal shows a line end as two characters. "ö" and "ß" are one column each.
  CHECK(shown_by_terminal() ==
        "\r\x1b[Kgröße [####    ] step 1/2  loss 2.0000  ETA 00:00"
        "\r\x1b[Kgröße [#########] step 2/2  loss 1.0000  in 00:00\r\n");
}

TEST_CASE("Progress: a terminal that keeps what is written gets plain lines") {
  for (const auto& [name, value] : {std::pair{"CI", "true"}, {"CI", "1"}, {"TERM", "dumb"}, {"TERM", nullptr}}) {
    CAPTURE(name);
    const Variable no_ci("CI", nullptr);
    const Variable term("TERM", "xterm");
    const Variable variable(name, value);
    CHECK(shown_by_terminal() == "größe  step 2/2  loss 1.0000  in 00:00\r\n");
  }
  const Variable term("TERM", "xterm");
  const Variable not_ci("CI", "false");
  CHECK(shown_by_terminal().find('\x1b') != std::string::npos);
}

TEST_CASE("Progress: a line that is cut ends with a whole character") {
  Screen screen;
  ProgressOptions options = screen.options(true, 4);
  options.label = "größe";
  Progress(2, options).update({.step = 1});
  CHECK(screen.text() == "\r\x1b[Kgrö\n");
}

TEST_CASE("Progress: lines of a long run become rarer") {
  Screen screen;
  Progress progress(100'000, screen.options(false));
  std::int64_t lines = 0;
  for (std::int64_t step = 1; step < 100'000; ++step) {
    screen.now += 1s;
    progress.update({.step = step});
    if (step == 20) CHECK(lines_in(screen.text()) == 20);
    if (step == 90'000) lines = lines_in(screen.text());
  }
  CHECK(lines > 100);
  CHECK(lines < 300);
  const std::int64_t last = lines_in(screen.text()) - lines;  // of 9,999 s: ten minutes at most between two
  CHECK(last >= 16);
  CHECK(last <= 17);
}

TEST_CASE("Progress: a resumed run is timed by the steps that it does itself") {
  Screen screen;
  ProgressOptions options = screen.options(false);
  options.first_step = 90;
  Progress progress(100, options);
  screen.now += 2s;
  progress.update({.step = 91, .examples = 10});
  CHECK(screen.text() == "epoch 1/2  step 91/100  5 examples/s  ETA 00:18\n");
}

TEST_CASE("Progress: finish shows what was held back, once") {
  Screen screen;
  Progress progress(10, screen.options(false));
  screen.now += 1s;
  progress.update({.step = 1});
  progress.update({.step = 2});
  CHECK(lines_in(screen.text()) == 1);
  progress.finish();
  progress.finish();
  CHECK(lines_in(screen.text()) == 2);
  CHECK(screen.text().find("step 2/10") != std::string::npos);
}

TEST_CASE("Progress: a hidden line comes back with the next update, or at the end") {
  Screen screen;
  Progress progress(3, screen.options(true, 60));
  progress.update({.step = 1});
  progress.hide();
  CHECK(screen.text().ends_with("\r\x1b[K"));
  progress.hide();
  progress.relabel("epoch 2/2");
  progress.update({.step = 2, .validation = 0.5});  // no time has passed
  CHECK(screen.text().find("epoch 2/2 ") != std::string::npos);
  CHECK(screen.text().ends_with("step 2/3  validation 50.00%  ETA 00:00"));
  progress.hide();
  progress.finish();
  CHECK(screen.text().ends_with("ETA 00:00\n"));
  CHECK(lines_in(screen.text()) == 1);

  Screen plain;
  Progress lines(3, plain.options(false));
  plain.now += 1s;
  lines.update({.step = 1});
  lines.hide();
  lines.finish();
  CHECK(lines_in(plain.text()) == 1);
}

TEST_CASE("Progress: a terminal sees that a run has begun, before its first step is done") {
  Screen screen;
  ProgressOptions options = screen.options(true, 30);
  options.first_step = 2;
  Progress progress(4, options);
  progress.begin();
  CHECK(screen.text() == "\r\x1b[Kepoch 1/2 [####    ] step 2/4");
  screen.now += 1s;
  progress.update({.step = 3});
  CHECK(screen.text().ends_with("step 3/4  ETA 00:01"));
  Screen plain;
  Progress lines(4, plain.options(false));
  lines.begin();
  lines.finish();
  CHECK(plain.text().empty());
}

TEST_CASE("Progress: what ends soon shows nothing, and steps have a name") {
  for (const bool terminal : {true, false}) {
    Screen screen;
    ProgressOptions options = screen.options(terminal, 60);
    options.quiet = 2s;
    options.step = "array";
    Progress progress(3, options);
    progress.begin();
    screen.now += 1s;
    progress.update({.step = 1});
    Progress short_one(1, options);
    short_one.update({.step = 1});
    short_one.finish();
    CHECK(screen.text().empty());
    screen.now += 2s;
    progress.update({.step = 2});
    CHECK(screen.text().find("array 2/3  ETA 00:02") != std::string::npos);
  }
}

TEST_CASE("Progress: slow rates have two digits") {
  Screen screen;
  Progress progress(100, screen.options(false));
  screen.now += 4s;
  progress.update({.step = 1, .examples = 1});
  screen.now += 4s;
  progress.update({.step = 2, .examples = 12});
  CHECK(screen.text().find("  0.25 examples/s  ") != std::string::npos);
  CHECK(screen.text().find("  1.5 examples/s  ") != std::string::npos);
}

TEST_CASE("Progress: strange numbers do no harm") {
  Screen screen;
  Progress empty(0, screen.options(true));
  empty.update({.step = 0});
  empty.finish();
  Progress late(10, screen.options(true));
  screen.now += 10'000h;
  late.update({.step = 1, .examples = 1, .loss = NAN, .accuracy = INFINITY});
  late.finish();
  CHECK(screen.text().find("ETA --:--") != std::string::npos);
}

TEST_SUITE_END();
