// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/error.h>
#include <tutti/backend/log.h>

#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;

namespace {

/// A sink for as long as this lives.
struct Sink {
  explicit Sink(LogSink sink) { set_log_sink(std::move(sink)); }
  ~Sink() { set_log_sink({}); }
};

/// What `act` writes to standard error; no more than a pipe holds.
template <class Act> std::string standard_error_of(Act act) {
  std::array<int, 2> pipe_ends{};
  REQUIRE(pipe(pipe_ends.data()) == 0);
  std::fflush(stderr);
  const int before = dup(STDERR_FILENO);
  dup2(pipe_ends[1], STDERR_FILENO);
  close(pipe_ends[1]);
  act();
  std::fflush(stderr);
  dup2(before, STDERR_FILENO);
  close(before);
  std::string text(1024, '\0');
  const ssize_t got = read(pipe_ends[0], text.data(), text.size());
  close(pipe_ends[0]);
  text.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  return text;
}

}  // namespace

TEST_CASE("log: a sink gets level and text, and standard error nothing") {
  std::vector<std::string> heard;
  const std::string written = standard_error_of([&] {
    const Sink sink([&](LogLevel level, std::string_view text) {
      heard.push_back(std::to_string(static_cast<int>(level)) + " " + std::string(text));
    });
    CHECK(has_log_sink());
    log_message(LogLevel::info, "a");
    log_message(LogLevel::warning, "b\nc");
    log_message(LogLevel::error, "");
  });
  CHECK(heard == std::vector<std::string>{"0 a", "1 b\nc", "2 "});
  CHECK(written == "");
}

TEST_CASE("log: without a sink each text is a line on standard error") {
  {
    const Sink sink([](LogLevel, std::string_view) {});
  }
  CHECK_FALSE(has_log_sink());
  CHECK(standard_error_of([] {
          log_message(LogLevel::warning, "one");
          log_message(LogLevel::error, "two");
        }) == "one\ntwo\n");
}

TEST_CASE("log: what a sink throws is ignored, what is said within it is lost") {
  int calls = 0;
  CHECK(standard_error_of([&] {
          const Sink sink([&](LogLevel, std::string_view) {
            ++calls;
            log_message(LogLevel::error, "said by a sink");
            throw std::runtime_error("a full disk");
          });
          log_message(LogLevel::error, "x");
          log_message(LogLevel::error, "y");
        }) == "");
  CHECK(calls == 2);
}

TEST_CASE("log: a sink cannot replace itself") {
  std::string error;
  const Sink sink([&](LogLevel, std::string_view) {
    try {
      set_log_sink({});
    } catch (const Error& refused) {
      error = refused.what();
    }
  });
  log_message(LogLevel::info, "x");
  CHECK(error.find("[log] set_log_sink was called by a sink") == 0);
  CHECK(has_log_sink());
}

TEST_CASE("log: no thread is within a sink that has been replaced") {
  std::atomic<bool> over{false};
  std::vector<std::thread> speakers;
  for (int i = 0; i < 3; ++i)
    speakers.emplace_back([&] {
      while (!over) {
        log_message(LogLevel::info, "x");
        std::this_thread::yield();
      }
    });
  std::atomic<int> heard{0};
  for (int i = 0; i < 200; ++i) {
    auto alive = std::make_shared<std::atomic<bool>>(true);
    set_log_sink([&heard, state = alive](LogLevel, std::string_view) { heard += *state ? 1 : -1'000'000; });
    set_log_sink([](LogLevel, std::string_view) {});
    CHECK(alive.use_count() == 1);  // the sink is destroyed
    *alive = false;
  }
  over = true;
  for (std::thread& each : speakers) each.join();
  set_log_sink({});
  CHECK(heard >= 0);
}

TEST_CASE("log: a child process has its parent's sink, and waits for no thread that is within it there") {
  std::atomic<bool> within{false}, over{false};
  int heard = 0;
  const Sink sink([&](LogLevel level, std::string_view) {
    if (level == LogLevel::info) ++heard;
    if (level != LogLevel::error) return;
    within = true;
    while (!over) std::this_thread::yield();
  });
  std::thread speaker([] { log_message(LogLevel::error, "for long"); });
  while (!within) std::this_thread::yield();
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // ends a child that hangs
    log_message(LogLevel::info, "heard");
    set_log_sink([&](LogLevel, std::string_view) { heard += 10; });
    log_message(LogLevel::info, "heard by another");
    _exit(heard);
  }
  int status = 0;
  waitpid(child, &status, 0);
  over = true;
  speaker.join();
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 11);
}

TEST_CASE("log: a sink may fork; the child leaves it, and gives another") {
  bool is_child = false;
  int status = -1;
  const Sink sink([&](LogLevel level, std::string_view) {
    if (level != LogLevel::error) return;
    const pid_t child = fork();
    is_child = child == 0;
    if (!is_child) waitpid(child, &status, 0);
  });
  log_message(LogLevel::error, "x");
  if (is_child) {
    alarm(20);
    set_log_sink({});
    _exit(has_log_sink() ? 1 : 7);
  }
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
}

TEST_SUITE_END();
