// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/backend/progress.h>
#include <tutti/tests/exchange/temporary_folder.h>
#include <tutti/train/reporting/console_writer.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;
using namespace std::chrono_literals;

namespace {

struct Screen {
  Screen() : output(std::fopen(folder.file("out").c_str(), "w")) {}
  ~Screen() { std::fclose(output); }
  std::string text() const { return read_file(folder.file("out")); }

  TemporaryFolder folder;
  std::FILE* output;
  ConsoleWriterOptions::Clock::time_point now{};
};

}  // namespace

TEST_CASE("ConsoleWriter: a line with what is new, smoothed where it shall be") {
  Screen screen;
  ConsoleWriter writer({.iterations = 1000, .output = screen.output, .now = [&] { return screen.now; }});
  EventStorage storage;
  writer.write(storage);
  CHECK(screen.text().empty());
  for (int i = 0; i < 3; ++i) {
    storage.set_iteration(i);
    storage.put_scalars({{"total_loss", i == 1 ? 9.0 : 0.25 + i}, {"time", 0.5}, {"data_time", 0.0123}});
    storage.put_scalars({{"lr", 0.1 * (i + 1)}, {"memory", 1 << 20}, {"memory/cpu:0", 1.0}},
                        EventStorage::Smoothing::none);
  }
  writer.write(storage);
  CHECK(screen.text() ==
        "iteration 2/1000  total_loss 2.25  time 500 ms  data_time 12.3 ms  lr 0.3  memory 1 MiB  ETA 08:19\n");
  writer.write(storage);
  storage.set_iteration(999);
  storage.put_scalar("eval/accuracy", 0.98765, EventStorage::Smoothing::none);
  writer.write(storage);
  CHECK(screen.text().ends_with("ETA 08:19\niteration 999/1000  eval/accuracy 0.9877\n"));
}

TEST_CASE("ConsoleWriter: without times the clock tells how long it takes, also after resuming") {
  Screen screen;
  ConsoleWriter writer({.iterations = 200, .output = screen.output, .now = [&] { return screen.now; }});
  EventStorage before(99);
  before.put_scalar("loss", 1.0);
  EventStorage storage;
  storage.load_text(before.to_text());
  writer.write(storage);
  CHECK(screen.text().empty());
  storage.set_iteration(100);
  storage.put_scalar("accuracy", 0.5);
  storage.set_iteration(109);
  storage.put_scalar("accuracy", 0.5);
  screen.now += 20s;  // ten iterations of 2 s; 90 are left
  writer.write(storage);
  CHECK(screen.text() == "iteration 109/200  accuracy 0.5  ETA 03:00\n");  // the loss is the old run's
  Screen endless;
  ConsoleWriter({.output = endless.output}).write(storage);
  CHECK(endless.text() == "iteration 109  accuracy 0.5\n");
}

TEST_CASE("ConsoleWriter: lines go above a progress bar") {
  Screen screen;
  EventStorage storage;
  storage.put_scalar("loss", 2.0);
  for (const bool terminal : {true, false}) {
    Progress progress(10, {.output = screen.output, .terminal = terminal, .width = 30});
    progress.update({.step = 1});
    ConsoleWriter({.progress = &progress}).write(storage);
  }
  const std::string text = screen.text();
  CHECK(text.find("\r\x1b[Kiteration 0  loss 2\n[") != std::string::npos);
  CHECK(text.ends_with("\niteration 0  loss 2\n"));
}

TEST_SUITE_END();
