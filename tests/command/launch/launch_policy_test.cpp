// SPDX-License-Identifier: Apache-2.0
#include <tutti/command/launch/launch_policy.h>

#include <chrono>
#include <csignal>
#include <string>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti::launch;
using namespace std::chrono_literals;

namespace {

constexpr auto kGrace = 10s;

/// A job of some processes (ranks from 0, pids from 100) at a time that only tests move.
class Job {
 public:
  explicit Job(int size, LaunchPolicy::Clock::duration grace = kGrace) : policy(processes(size), grace) {}

  void ends(std::size_t process, Ending ending) {
    policy.ended(process, ending, now, actions_);
    policy.group_gone(process);
  }
  void exits(std::size_t process, int status) { ends(process, {.number = status}); }
  void dies(std::size_t process, int signal) { ends(process, {.number = signal, .by_signal = true}); }
  void request(int signal) { policy.requested(signal, now, actions_); }
  void passes(LaunchPolicy::Clock::duration time) {
    now += time;
    policy.look(now, actions_);
  }

  std::vector<int> signals() {  ///< sent since the last question
    std::vector<int> sent;
    for (const LaunchAction& action : actions_)
      if (const auto* signal = std::get_if<SignalAll>(&action)) sent.push_back(signal->signal);
    std::erase_if(actions_, [](const LaunchAction& action) { return std::holds_alternative<SignalAll>(action); });
    return sent;
  }
  std::string said() {  ///< since the last question
    std::string text;
    for (const LaunchAction& action : actions_)
      if (const auto* say = std::get_if<Say>(&action)) text += say->text + "\n";
    std::erase_if(actions_, [](const LaunchAction& action) { return std::holds_alternative<Say>(action); });
    return text;
  }

  LaunchPolicy::Time now{1000s};
  LaunchPolicy policy;
  LaunchPolicy::Actions actions_;

 private:
  static std::vector<LaunchPolicy::Process> processes(int size) {
    std::vector<LaunchPolicy::Process> processes;
    for (int rank = 0; rank < size; ++rank) processes.push_back({.rank = rank, .pid = 100 + rank});
    return processes;
  }
};

using Signals = std::vector<int>;
const Signals kTerminate{SIGTERM, SIGCONT};

}  // namespace

TEST_CASE("launch_policy: who was stopped when another one failed is named with it") {
  Job job(3);
  job.policy.stopped(1, SIGSTOP);
  job.policy.stopped(2, SIGSTOP);
  job.policy.stopped(2, 0);  // goes on
  job.exits(0, 1);
  job.passes(kGrace);
  job.dies(1, SIGTERM);
  job.dies(2, SIGTERM);
  CHECK(job.policy.closing() ==
        "the job failed because rank 0 (pid 100) ended with status 1 while rank 1 (pid 101) was stopped by signal 19 "
        "(Stopped (signal)); then rank 1 was killed by signal 15 (Terminated), rank 2 was killed by signal 15 "
        "(Terminated)");
}

TEST_CASE("launch_policy: all end well, one by one: no word, no signal") {
  Job job(3);
  job.exits(1, 0);
  job.passes(24h);
  job.exits(0, 0);
  CHECK(!job.policy.finished());
  CHECK(!job.policy.deadline());
  CHECK(job.signals().empty());
  job.exits(2, 0);
  CHECK(job.policy.finished());
  CHECK(job.policy.status() == 0);
  CHECK(!job.policy.closing());
  CHECK(job.said().empty());
}

TEST_CASE("launch_policy: the first failure is the cause, and its status the job's") {
  Job job(4);
  job.exits(3, 0);
  job.dies(2, SIGKILL);
  CHECK(job.said() == "rank 2 (pid 102) was killed by signal 9 (Killed)\n");
  CHECK(job.signals().empty());
  CHECK(job.policy.deadline() == job.now + kGrace);
  job.passes(5s);
  job.exits(0, 1);
  CHECK(job.said() == "rank 0 (pid 100) ended with status 1\n");
  CHECK(job.policy.deadline() == job.now + 5s);
  job.exits(1, 0);
  CHECK(job.policy.finished());
  CHECK(job.policy.status() == 137);
  CHECK(job.policy.closing() ==
        "the job failed because rank 2 (pid 102) was killed by signal 9 (Killed); then rank 0 ended with status 1");
}

TEST_CASE("launch_policy: who does not end by itself gets SIGTERM, then SIGKILL, each after the grace time") {
  Job job(3);
  job.exits(0, 3);
  (void)job.said();
  job.passes(kGrace - 1ms);
  CHECK(job.signals().empty());
  job.passes(1ms);
  CHECK(job.signals() == kTerminate);
  CHECK(job.said() == "rank 1, rank 2 still running 10 s after the first failure: SIGTERM\n");
  job.dies(2, SIGTERM);
  CHECK(job.said().empty());  // no failure of its own
  job.passes(kGrace);
  CHECK(job.signals() == Signals{SIGKILL});
  CHECK(job.said() == "rank 1 still running 10 s after SIGTERM: SIGKILL\n");
  job.dies(1, SIGKILL);
  CHECK(job.policy.finished());
  CHECK(job.policy.status() == 3);
  CHECK(
      job.policy.closing() ==
      "the job failed because rank 0 (pid 100) ended with status 3; then rank 2 was killed by signal 15 (Terminated), "
      "rank 1 was killed by signal 9 (Killed)");
}

TEST_CASE("launch_policy: who does not even end by SIGKILL is left") {
  Job job(2, 1500ms);
  job.exits(0, 3);
  job.passes(1500ms);
  job.passes(1500ms);
  (void)job.said();
  CHECK(!job.policy.finished());
  job.passes(1500ms);
  CHECK(job.said() == "rank 1 still running 1.5 s after SIGKILL: left alone\n");
  CHECK(job.policy.finished());
  CHECK(!job.policy.deadline());
}

TEST_CASE("launch_policy: a first request is passed on, and the job may take its time") {
  Job job(2);
  job.request(SIGINT);
  CHECK(job.signals() == Signals{SIGINT});
  CHECK(job.said() == "signal 2 (Interrupt) is passed on to all ranks; once more ends them\n");
  job.passes(24h);
  CHECK(job.signals().empty());
  SUBCASE("it ends well") {
    job.exits(0, 0);
    job.exits(1, 0);
    CHECK(job.policy.status() == 0);
    CHECK(!job.policy.closing());
  }
  SUBCASE("it ends as asked") {
    job.dies(0, SIGINT);
    job.exits(1, 130);
    CHECK(job.said().empty());
    CHECK(job.policy.status() == 130);
    CHECK(job.policy.closing() == "the job ended after signal 2 (Interrupt)");
  }
  SUBCASE("it fails then, and the others have the grace time") {
    job.exits(1, 5);
    CHECK(job.said() == "rank 1 (pid 101) ended with status 5\n");
    job.passes(kGrace);
    CHECK(job.signals() == kTerminate);
    job.exits(0, 0);
    CHECK(job.policy.status() == 5);
    CHECK(job.policy.closing() == "the job ended after signal 2 (Interrupt); then rank 1 ended with status 5");
  }
}

TEST_CASE("launch_policy: a second request brings SIGTERM, and SIGKILL after the grace time; a third at once") {
  Job job(1);
  job.request(SIGTERM);
  CHECK(job.signals() == Signals{SIGTERM});
  job.request(SIGINT);
  CHECK(job.signals() == kTerminate);
  SUBCASE("time") { job.passes(kGrace); }
  SUBCASE("a third") { job.request(SIGINT); }
  CHECK(job.signals() == Signals{SIGKILL});
  job.request(SIGINT);
  CHECK(job.signals().empty());
  job.dies(0, SIGKILL);
  CHECK(job.policy.status() == 137);
}

TEST_CASE("launch_policy: a failure before a request stays the cause") {
  Job job(2);
  job.exits(0, 7);
  (void)job.said();
  job.request(SIGINT);
  CHECK(job.signals() == Signals{SIGINT});
  job.dies(1, SIGINT);
  CHECK(job.policy.status() == 7);
  CHECK(job.policy.closing() == "the job failed because rank 0 (pid 100) ended with status 7");
}

TEST_CASE("launch_policy: an output without a reader ends the job, unless it ends already") {
  Job job(2);
  SUBCASE("while it runs") {
    job.policy.output_failed("standard output: Broken pipe", 141, job.now, job.actions_);
    CHECK(job.said() == "standard output: Broken pipe: the job ends\n");
    CHECK(job.signals() == kTerminate);
    job.dies(0, SIGTERM);
    job.dies(1, SIGTERM);
    CHECK(job.policy.status() == 141);
  }
  SUBCASE("after a request: what is left to do may be a checkpoint") {
    job.request(SIGHUP);
    CHECK(job.signals() == Signals{SIGHUP});
    job.policy.output_failed("standard error: Input/output error", 1, job.now, job.actions_);
    CHECK(job.signals().empty());
    job.exits(0, 0);
    SUBCASE("that goes well") {
      job.exits(1, 0);
      CHECK(job.policy.status() == 1);
    }
    SUBCASE("that ends as asked") {
      job.dies(1, SIGHUP);
      CHECK(job.policy.status() == 129);
    }
  }
  SUBCASE("after a failure") {
    job.exits(0, 3);
    job.policy.output_failed("standard output: Broken pipe", 141, job.now, job.actions_);
    CHECK(job.signals().empty());
    job.exits(1, 0);
    CHECK(job.policy.status() == 3);
  }
}

TEST_CASE("launch_policy: what processes have left behind ends too, without a word") {
  Job job(2);
  job.policy.ended(0, {}, job.now, job.actions_);
  job.exits(1, 0);
  CHECK(!job.policy.finished());
  CHECK(job.signals() == kTerminate);
  job.passes(kGrace);
  CHECK(job.signals() == Signals{SIGKILL});
  job.policy.group_gone(0);
  CHECK(job.policy.finished());
  CHECK(job.policy.status() == 0);
  CHECK(job.said().empty());
}

TEST_CASE("launch_policy: a time in which the whole job was stopped does not count") {
  Job job(2);
  job.exits(0, 3);
  job.passes(4s);
  job.now += 1h;
  job.policy.stood_still(1h);
  job.passes(5s);
  CHECK(job.signals().empty());
  job.passes(1s);
  CHECK(job.signals() == kTerminate);
}

TEST_CASE("launch_policy: of many consequences some are listed") {
  Job job(100);
  for (int i = 0; i < 100; ++i) job.exits(i, 1);
  CHECK(job.policy.closing()->ends_with("rank 8 ended with status 1 and 91 more"));
}

TEST_SUITE_END();
