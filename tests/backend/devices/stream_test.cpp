// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/cpu_backend.h>
#include <tutti/backend/cpu/runtime/cpu_stream.h>
#include <tutti/backend/error.h>
#include <tutti/tests/backend/devices/manual_stream.h>
#include <tutti/tests/no_threads.h>

#include <doctest/doctest.h>

#include <chrono>
#include <set>
#include <stdexcept>
#include <thread>

TEST_SUITE_BEGIN("cpu");

namespace tutti {
namespace {

using Mode = CpuStream::Mode;
constexpr Mode kModes[] = {Mode::run_inline, Mode::worker};

/// An event that the test completes.
struct Gate {
  std::shared_ptr<CpuEvent> state = std::make_shared<CpuEvent>();
  Event event{state};
};

TEST_CASE("work runs in order and synchronize waits for it") {
  for (const Mode mode : kModes) {
    CpuStream stream(cpu(), mode);
    std::vector<int> order;
    for (int i = 0; i < 100; ++i) stream.launch("append", [&order, i] { order.push_back(i); });
    stream.synchronize();
    REQUIRE(order.size() == 100);
    for (int i = 0; i < 100; ++i) CHECK(order[static_cast<std::size_t>(i)] == i);
    CHECK(stream.device() == cpu());
  }
}

TEST_CASE("inline: arguments are not copied, recording shares one event, errors appear at the call") {
  CpuStream stream(cpu(), Mode::run_inline);
  const auto argument = std::make_shared<int>(3);
  long seen = 0;
  stream.launch(
      "look", [&](const std::shared_ptr<int>& held) { seen = held.use_count(); }, argument);
  CHECK(seen == 1);
  CHECK(stream.record().ready());
  CHECK(stream.record().state() == stream.record().state());
  CHECK_THROWS_WITH_AS(stream.launch("fail", [] { throw std::runtime_error("here"); }), "here", std::runtime_error);
  stream.synchronize();  // it was delivered
  CHECK_NOTHROW(stream.record().synchronize());
}

TEST_CASE("a worker for which there is no thread is an error, and nothing of its work is left") {
  CpuStream stream(cpu(), Mode::worker);
  int runs = 0;
  {
    const testing::NoThreads none;
    CHECK_THROWS_WITH_AS(stream.launch("count", [&] { ++runs; }), doctest::Contains("no thread can be started"),
                         DeviceError);
  }
  stream.launch("count", [&] { ++runs; });
  stream.synchronize();
  CHECK(runs == 1);
}

TEST_CASE("worker: arguments live until the work has run, and are gone when the next event is signalled") {
  CpuStream stream(cpu(), Mode::worker);
  const Gate gate;
  const auto argument = std::make_shared<int>(3);
  stream.wait(gate.event);
  int value = 0;
  stream.launch(
      "read", [&value](const std::shared_ptr<int>& held) { value = *held; }, argument);
  const Event done = stream.record();
  CHECK(argument.use_count() == 2);
  CHECK_FALSE(done.ready());
  gate.state->complete();
  done.synchronize();
  CHECK(value == 3);
  CHECK(argument.use_count() == 1);
}

TEST_CASE("running out of memory in work names the operation") {
  for (const Mode mode : kModes) {
    CpuStream stream(cpu(), mode);
    const auto run = [&] {
      stream.launch("sort", [] { throw std::bad_alloc(); });
      stream.synchronize();
    };
    CHECK_THROWS_WITH_AS(run(), "[sort] the machine has no memory left for temporary buffers", OutOfMemoryError);
  }
}

TEST_CASE("waiting for an event that was never recorded is an error") {
  for (const Mode mode : kModes) {
    CpuStream stream(cpu(4), mode);
    CHECK_THROWS_WITH_AS(stream.wait(Event{}), "[stream] cpu:4 was told to wait for an event that was never recorded",
                         Error);
    CHECK_NOTHROW(stream.synchronize());
  }
  CHECK_THROWS_AS(Event{}.synchronize(), Error);
  CHECK_THROWS_AS((void)Event{}.ready(), Error);
  CHECK_THROWS_AS(ManualStream().wait(Event{}), Error);
}

TEST_CASE("wait does not block the caller, orders what follows, and so does an event recorded behind it") {
  for (const Mode mode : kModes) {
    CpuStream stream(cpu(), mode);
    const Gate gate;
    stream.wait(gate.event);  // would hang here if it blocked
    const Event behind = stream.record();
    CHECK_FALSE(behind.ready());
    bool opened = false;
    bool seen = false;
    std::thread opener([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      opened = true;
      gate.state->complete();
    });
    stream.launch("look", [&] { seen = opened; });
    stream.synchronize();
    CHECK(seen);
    behind.synchronize();
    CHECK(behind.ready());
    opener.join();
  }
}

TEST_CASE("inline: synchronize honours waits too, and a second host thread does not overtake them") {
  CpuStream stream(cpu(), Mode::run_inline);
  const Gate gate;
  stream.wait(gate.event);
  std::atomic<int> ran{0};
  std::thread other([&] { stream.launch("count", [&] { ++ran; }); });
  std::thread third([&] {
    stream.synchronize();
    ++ran;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  CHECK(ran == 0);
  gate.state->complete();
  other.join();
  third.join();
  CHECK(ran == 2);
}

TEST_CASE("worker: after an error work is skipped and events carry it, until synchronize rethrows it once") {
  CpuStream stream(cpu(), Mode::worker);
  bool ran = false;
  stream.launch("fail", [] { throw std::runtime_error("lost"); });
  stream.launch("skipped", [&ran] { ran = true; });
  const Event event = stream.record();
  CHECK_THROWS_WITH_AS(event.synchronize(), "lost", std::runtime_error);
  CHECK(event.ready());
  CHECK_FALSE(ran);
  CHECK_THROWS_WITH_AS(stream.synchronize(), "lost", std::runtime_error);
  CHECK_NOTHROW(stream.synchronize());
  stream.launch("runs", [&ran] { ran = true; });
  CHECK_NOTHROW(stream.record().synchronize());
  CHECK(ran);
  CHECK_THROWS_AS(event.synchronize(), std::runtime_error);  // what it knew, it still knows
}

TEST_CASE("an error crosses to the stream that waits for it") {
  for (const Mode mode : kModes) {
    CpuStream failing(cpu(0), Mode::worker);
    CpuStream waiting(cpu(1), mode);
    failing.launch("fail", [] { throw std::runtime_error("from cpu:0"); });
    waiting.wait(failing.record());
    const Event behind = waiting.record();
    bool ran = false;
    const auto run = [&] {
      waiting.launch("work", [&ran] { ran = true; });
      waiting.synchronize();
    };
    CHECK_THROWS_WITH_AS(run(), "from cpu:0", std::runtime_error);
    CHECK_FALSE(ran);
    CHECK_THROWS_WITH_AS(behind.synchronize(), "from cpu:0", std::runtime_error);
    CHECK_NOTHROW(run());
    CHECK(ran);
    CHECK_THROWS_AS(failing.synchronize(), std::runtime_error);
  }
}

TEST_CASE("two streams hand a value to and fro in order") {
  CpuStream left(cpu(0), Mode::worker);
  CpuStream right(cpu(1), Mode::worker);
  std::int64_t value = 0;  // no atomic: the events order the accesses
  for (int round = 0; round < 500; ++round) {
    left.launch("add", [&value] { ++value; });
    right.wait(left.record());
    right.launch("double", [&value] { value = (value * 2) % 1000003; });
    left.wait(right.record());
  }
  left.synchronize();
  std::int64_t expected = 0;
  for (int round = 0; round < 500; ++round) expected = ((expected + 1) * 2) % 1000003;
  CHECK(value == expected);
}

TEST_CASE("a stream that ended goes on inline") {
  CpuStream stream(cpu(), Mode::worker);
  int ran = 0;
  stream.launch("before", [&ran] { ++ran; });
  stream.stop();
  CHECK(ran == 1);
  CHECK(stream.runs_inline());
  stream.launch("after", [&ran] { ++ran; });
  CHECK(ran == 2);
  CHECK_NOTHROW(stream.synchronize());
  stream.stop();
}

TEST_CASE("what other threads launch while a stream ends runs after what was queued") {
  CpuStream stream(cpu(), Mode::worker);
  const Gate gate;
  std::vector<int> order;
  stream.wait(gate.event);
  stream.launch("queued", [&order] { order.push_back(1); });
  std::thread ends([&stream] { stream.stop(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::thread opens([&gate] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    gate.state->complete();
  });
  stream.launch("launched", [&order] { order.push_back(2); });
  ends.join();
  opens.join();
  CHECK(order == std::vector{1, 2});
  CHECK(stream.runs_inline());
}

TEST_CASE("work that ends a stream has what is behind it run") {
  CpuStream stream(cpu(), Mode::worker);
  const Gate gate;
  int ran = 0;
  stream.wait(gate.event);
  stream.launch("end", [&] {
    stream.stop();
    CHECK(ran == 1);
  });
  stream.launch("behind", [&ran] { ++ran; });
  gate.state->complete();
  stream.stop();  // waits for the worker
  CHECK(ran == 1);
  CHECK(stream.runs_inline());
}

TEST_CASE("memory that queued work uses is not handed out again before it has run") {
  CpuBackend backend(Mode::worker);
  const Gate gate;
  backend.compute_stream(cpu()).wait(gate.event);
  auto storage = std::make_shared<Storage>(cpu(), backend.pool(cpu()), 256);
  std::byte* const data = storage->data();
  backend.stream(cpu()).launch(
      "use", [](const std::shared_ptr<Storage>& held) { held->data()[0] = std::byte{1}; }, storage);
  storage.reset();
  CHECK(backend.pool(cpu()).statistics().in_use == 256);
  const Storage other(cpu(), backend.pool(cpu()), 256);
  CHECK(other.data() != data);
  gate.state->complete();
  backend.compute_stream(cpu()).synchronize();
  CHECK(backend.pool(cpu()).statistics().in_use == 256);  // only `other`
}

/// Runs two streams' work in the order that `choices` picks, bit by bit; false if it got stuck.
bool run_interleaved(ManualStream& a, ManualStream& b, unsigned choices) {
  while (a.pending() + b.pending() > 0) {
    ManualStream& first = (choices & 1U) != 0 ? a : b;
    ManualStream& second = (choices & 1U) != 0 ? b : a;
    choices >>= 1U;
    if (!first.run_next() && !second.run_next()) return false;
  }
  return true;
}

TEST_CASE("in every interleaving of two streams events order the work, and nothing else does") {
  std::set<std::string> ordered;
  std::set<std::string> unordered;
  for (unsigned choices = 0; choices < (1U << 12U); ++choices) {
    for (const bool with_events : {true, false}) {
      ManualStream a(cpu(0));
      ManualStream b(cpu(1));
      std::string trace;
      a.launch([&] { trace += 'w'; });  // writes
      if (with_events) b.wait(a.record());
      b.launch([&] { trace += 'r'; });  // reads what was written
      if (with_events) a.wait(b.record());
      a.launch([&] { trace += 'o'; });  // overwrites
      REQUIRE(run_interleaved(a, b, choices));
      (with_events ? ordered : unordered).insert(trace);
    }
  }
  CHECK(ordered == std::set<std::string>{"wro"});
  CHECK(unordered == std::set<std::string>{"wro", "rwo", "wor"});
}

TEST_CASE("the manual stream keeps the contract on errors") {
  ManualStream a(cpu(0));
  ManualStream b(cpu(1));
  bool ran = false;
  a.launch([] { throw std::runtime_error("lost"); });
  b.wait(a.record());
  b.launch([&] { ran = true; });
  CHECK_THROWS_AS(b.synchronize(), Error);  // would block
  CHECK_THROWS_WITH_AS(a.synchronize(), "lost", std::runtime_error);
  CHECK_THROWS_WITH_AS(b.synchronize(), "lost", std::runtime_error);
  CHECK_FALSE(ran);
  CHECK_NOTHROW(a.synchronize());
}

}  // namespace
}  // namespace tutti

TEST_SUITE_END();
