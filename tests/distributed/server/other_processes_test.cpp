// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/server/other_processes.h>

#include <tutti/backend/error.h>
#include <tutti/distributed/collectives/engine_task.h>
#include <tutti/tests/distributed/ledger/ledger_driver.h>
#include <tutti/tests/distributed/processes/in_process_link.h>

#include <doctest/doctest.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <stdexcept>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

/// A process that is the only one of its group, with what it hears.
struct Conversation {
  Conversation() : others(std::move(InProcessLinks::make({1})[0])) {
    others.open({.said =
                     [this](ProcessLink::Line, std::vector<ProcessLink::Bytes> words) {
                       const std::lock_guard lock(mutex);
                       heard.push_back(std::move(words));
                       news.notify_all();
                     },
                 .ended = [](const ProcessLink::End&) {}});
    others.describe(3, 17, 1);
  }
  std::vector<ProcessLink::Bytes> next() {
    std::unique_lock lock(mutex);
    REQUIRE(news.wait_for(lock, std::chrono::seconds(20), [this] { return !heard.empty(); }));
    auto words = std::move(heard.front());
    heard.pop_front();
    return words;
  }

  std::mutex mutex;
  std::condition_variable news;
  std::deque<std::vector<ProcessLink::Bytes>> heard;
  OtherProcesses others;
};

struct TaskOfTest final : EngineTask {
  void help(Device) override {}
  void end(std::exception_ptr error = {}) { finish(std::move(error)); }
};

ProcessLink::End end_of(int rank, std::int64_t completed, bool closed) { return {rank, "", completed, closed}; }

}  // namespace

TEST_CASE("other_processes: questions become words, and what is heard becomes the answers") {
  Conversation with;
  const Agree agree{1, {{required_set({0, 2}), 2.0, true, false}}};
  with.others.ask(agree);
  CHECK(std::holds_alternative<std::monostate>(with.others.hear(with.next())));  // the sets are exchanged, too
  auto answer = with.others.hear(with.next());
  REQUIRE(std::holds_alternative<std::shared_ptr<const Agreement>>(answer));
  CHECK(std::get<std::shared_ptr<const Agreement>>(answer)->weight({2}) == 2.0);
  with.others.ask_commit(1);
  CHECK(std::holds_alternative<OtherProcesses::Committed>(with.others.hear(with.next())));
  with.others.ask({2, agree.registrations});
  CHECK(std::holds_alternative<std::shared_ptr<const Agreement>>(with.others.hear(with.next())));
}

TEST_CASE("other_processes: what nobody asked for, and another end than the generation's, are errors") {
  Conversation with;
  CHECK_THROWS_WITH_AS(with.others.hear(std::vector<Bytes>(1)), doctest::Contains("nobody had asked for"), SyncError);
  with.others.ask_commit(7);
  const auto commit = with.next();
  CHECK_THROWS_WITH_AS(with.others.hear(std::vector<Bytes>(1)),
                       doctest::Contains("rank 0 did not come to the end of generation 7"), SyncError);
  with.others.ask_commit(8);
  CHECK_THROWS_WITH_AS(with.others.hear(commit), doctest::Contains("generation 8"), SyncError);
}

TEST_CASE("other_processes: of the processes that ended before a generation, one that failed counts first") {
  Conversation with;
  CHECK(with.others.ended_before(1) == nullptr);
  with.others.note(end_of(1, 5, true));
  CHECK(with.others.ended_before(5) == nullptr);
  REQUIRE(with.others.ended_before(6) != nullptr);
  CHECK(with.others.ended_before(6)->rank == 1);
  with.others.note(end_of(2, 4, false));
  CHECK(with.others.ended_before(5)->rank == 2);
  CHECK(with.others.ended_before(6)->rank == 2);
}

TEST_CASE("other_processes: `after` calls once all tasks are finished, with the first error, and not when it is gone") {
  const auto first = std::make_shared<TaskOfTest>();
  const auto second = std::make_shared<TaskOfTest>();
  const std::vector<std::shared_ptr<CollectiveTask>> tasks{first, second};
  int calls = 0;
  std::exception_ptr error;
  const auto done = [&](std::exception_ptr found) {
    ++calls;
    error = std::move(found);
  };
  {
    Conversation with;
    with.others.after(tasks, done);
    second->end(std::make_exception_ptr(std::runtime_error("lost")));
    CHECK(calls == 0);
    first->end();
    CHECK(calls == 1);
    CHECK_THROWS_WITH(std::rethrow_exception(error), "lost");
    with.others.after({}, done);  // nothing was launched
    CHECK(calls == 2);
    CHECK(error == nullptr);
  }
  const auto late = std::make_shared<TaskOfTest>();
  {
    Conversation with;
    with.others.after(std::vector<std::shared_ptr<CollectiveTask>>{late}, done);
  }
  late->end();
  CHECK(calls == 2);
  Conversation with;
  with.others.after(tasks, done);  // finished before
  CHECK(calls == 3);
}

TEST_SUITE_END();
