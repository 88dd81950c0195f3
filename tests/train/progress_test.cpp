// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/tests/exchange/temporary_folder.h>
#include <tutti/train/progress.h>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;
using namespace std::chrono_literals;

namespace {

/// A file as output and a clock that the test sets.
class Screen {
 public:
  Screen() : output_(std::fopen(folder_.file("out").c_str(), "w")) {}
  ~Screen() { std::fclose(output_); }

  ProgressOptions options(std::optional<bool> terminal, int width = 80) {
    return {
        .label = "epoch 1/2", .output = output_, .terminal = terminal, .width = width, .now = [this] { return now; }};
  }
  std::string text() const { return read_file(folder_.file("out")); }

  ProgressOptions::Clock::time_point now{};

 private:
  TemporaryFolder folder_;
  std::FILE* output_;
};

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
  CHECK(text.starts_with("epoch 1/2  step 34/100  loss 0.0294  accuracy 50.00%  1067 images/s  ETA 00:02\n"));
  CHECK(text.ends_with("epoch 1/2  step 100/100  loss 0.0100  accuracy 50.00%  1067 images/s  in 00:03\n"));
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

TEST_CASE("Progress: COLUMNS says how wide a terminal is") {
  const char* before = std::getenv("COLUMNS");
  const std::string kept = before ? before : "";
  setenv("COLUMNS", "21", 1);
  Screen screen;
  ProgressOptions options = screen.options(true);
  options.width.reset();
  Progress(400, options).update({.step = 200, .loss = 0.5});
  before ? setenv("COLUMNS", kept.c_str(), 1) : unsetenv("COLUMNS");
  CHECK(screen.text() == "\r\x1b[Kepoch 1/2 step 200/4\n");
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
