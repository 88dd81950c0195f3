// SPDX-License-Identifier: Apache-2.0
// Where no thread can be had, and in a child process, which has none of its parent's.
#include <tutti/backend/error.h>
#include <tutti/backend/progress.h>
#include <tutti/tests/exchange/temporary_folder.h>
#include <tutti/tests/no_threads.h>
#include <tutti/train/checkpoints/checkpoint_folder.h>
#include <tutti/train/data/prefetch.h>
#include <tutti/train/device_threads.h>

#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;
using namespace std::chrono_literals;

namespace {

/// 0, 1, 2, ...
class Counting final : public DataStream<int> {
 public:
  std::optional<int> next() override { return place_++; }
  void start_epoch(std::int64_t) override { place_ = 0; }
  std::string position() const override { return std::to_string(place_); }
  void seek(const std::string& position) override { place_ = std::stoi(position); }

 private:
  int place_ = 0;
};

struct Words {
  std::string text = "x";
};
PartState part_state(const Words& part) { return {{}, part.text}; }
Install prepare_part(Words& part, const PartState& state) {
  return [&part, text = state.text] { part.text = text; };
}

template <class Act> bool says(const char* expected, Act act) {
  try {
    act();
  } catch (const Error& error) {
    return std::string(error.what()).find(expected) != std::string::npos;
  }
  return false;
}

/// The status of a child that runs `act`, or -1 for one that has not ended within 20 s.
template <class Act> int status_of_child(Act act) {
  const pid_t child = fork();
  if (child == 0) _exit(act());
  for (int i = 0; i < 2000; ++i, std::this_thread::sleep_for(10ms)) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) return WIFEXITED(status) ? WEXITSTATUS(status) : -2;
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return -1;
}

constexpr const char* kNone = "no thread can be started";

}  // namespace

TEST_CASE("no threads: a prefetch says so, and reads on when there are some") {
  Prefetch<int> stream(std::make_unique<Counting>());
  CHECK(stream.next() == 0);
  stream.seek("5");
  {
    const NoThreads none;
    CHECK(says(kNone, [&] { (void)stream.next(); }));
  }
  CHECK(stream.next() == 5);
}

TEST_CASE("no threads: devices for one of which there is none do not begin") {
  std::atomic<int> begun{0};
  const NoThreads none;
  CHECK(says(kNone, [&] { on_every_device(2, [&](std::size_t) { ++begun; }); }));
  CHECK(begun == 0);
}

TEST_CASE("no threads: a checkpoint says so, and is saved when there are some") {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder.file("run"));
  Words words;
  CheckpointParts parts;
  parts.add("words", words);
  {
    const NoThreads none;
    CHECK(says(kNone, [&] { checkpoints.save(parts, {.step = 1}); }));
  }
  CHECK(checkpoints.paths().empty());
  CHECK(checkpoints.save(parts, {.step = 1}));
  checkpoints.wait();
  CHECK(checkpoints.paths().size() == 1);
}

TEST_CASE("no threads: in a child process a prefetch says so, and ends") {
  auto stream = std::make_unique<Prefetch<int>>(std::make_unique<Counting>());
  CHECK(stream->next() == 0);
  std::this_thread::sleep_for(50ms);  // the reader waits
  CHECK(status_of_child([&] {
          const bool told = says("is used in its child", [&] { (void)stream->next(); }) &&
                            says("[Prefetch] ", [&] { stream->start_epoch(1); });
          stream.reset();
          return told ? 0 : 1;
        }) == 0);
  CHECK(stream->next() == 1);
}

TEST_CASE("no threads: in a child process a checkpoint's writer is not waited for") {
  const TemporaryFolder folder;
  auto checkpoints = std::make_unique<CheckpointFolder>(folder.file("run"));
  Words words;
  CheckpointParts parts;
  parts.add("words", words);
  CHECK(checkpoints->save(parts, {.step = 1}));
  CHECK(status_of_child([&] {
          const bool told = says("is used in its child", [&] { checkpoints->wait(); });
          checkpoints.reset();
          return told ? 0 : 1;
        }) == 0);
  checkpoints->wait();
  CHECK(checkpoints->paths().size() == 1);
}

TEST_CASE("no threads, but clocks: intervals of a progress bar may be never, and none is negative") {
  const TemporaryFolder folder;
  std::FILE* output = std::fopen(folder.file("out").c_str(), "w");
  ProgressOptions::Clock::time_point now{};
  constexpr auto kNever = std::chrono::milliseconds::max();
  {
    Progress progress(
        10, {.output = output, .terminal = false, .line_interval = kNever, .widest_interval = kNever, .now = [&] {
               return now;
             }});
    for (int step = 1; step <= 5; ++step) {
      now += 1h;
      progress.update({.step = step});
    }
  }
  std::fclose(output);
  CHECK(read_file(folder.file("out")) == "");
  CHECK(says("[progress, line_interval] -1 ms", [] { const Progress wrong(10, {.line_interval = -1ms}); }));
}
