// SPDX-License-Identifier: Apache-2.0
// Trainings of several processes, some of which are killed or stopped: training_process.cpp.
#include <tutti/distributed/process_group.h>
#include <tutti/tests/distributed/processes/training_rank.h>
#include <tutti/tests/distributed/two_branches.h>

#include <doctest/doctest.h>

#include <signal.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr const char* kEngines[] = {"", "network", "plain"};  // words for training_process

constexpr const char* kWays[] = {"optimizer_state", "gradients", "double_buffered", "compressed"};

std::vector<std::unique_ptr<TrainingRank>> start(std::size_t ranks, std::size_t devices, int steps, const char* engine,
                                                 const char* way = "", int silence = 20'000) {
  const int port = free_port();
  std::vector<std::unique_ptr<TrainingRank>> all;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    all.push_back(std::make_unique<TrainingRank>(RankStart{.rank = rank,
                                                           .ranks = ranks,
                                                           .port = port,
                                                           .devices = devices,
                                                           .steps = steps,
                                                           .engine = engine,
                                                           .first = rank * devices,
                                                           .way = way,
                                                           .silence = silence}));
  return all;
}

}  // namespace

TEST_CASE("group_processes: two processes of two devices and four of one train to the bits of one process") {
  const std::string expected = digest_alone(40);
  for (const char* engine : kEngines)
    for (const std::size_t ranks : {2, 4}) {
      CAPTURE(engine);
      for (auto job = start(ranks, 4 / ranks, 40, engine); const auto& rank : job) {
        CHECK(rank->line({"engine", "error"}) == (*engine == '\0' ? "engine shared memory" : "engine network"));
        CHECK(rank->line({"digest", "error"}) == expected);
      }
    }
}

TEST_CASE("group_processes: sharded, late and compressed, two processes of two devices and four of one") {
  for (const std::string way : kWays) {
    const auto overlap = way == "double_buffered" ? Overlap::double_buffered : Overlap::immediate;
    const std::string expected = digest_alone(40, 4, overlap, way == "compressed" ? trained_compression() : nullptr);
    for (const std::size_t ranks : {2, 4}) {
      CAPTURE(way);
      for (auto job = start(ranks, 4 / ranks, 40, kEngines[ranks / 2 - 1], way.c_str()); const auto& rank : job)
        CHECK(rank->line({"digest", "error"}) == expected);
    }
  }
}

TEST_CASE(
    "group_processes: a killed process, any rank, is named by all others, whatever is sharded, late or compressed") {
  for (const std::size_t turn : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}) {
    const std::size_t victim = turn % 3;
    const char* const way = turn < 6 ? "" : kWays[(turn - 6) % 4];
    auto job = start(3, 1, 1'000'000, kEngines[turn < 6 ? turn / 3 : (turn - 6) / 4], way);
    CAPTURE(way);
    for (const auto& rank : job) rank->await_steps();
    const std::string name = "rank " + std::to_string(victim) + " on ";
    const std::string pid = "(pid " + std::to_string(job[victim]->pid()) + ")";
    job[victim]->signal(SIGKILL);
    for (std::size_t rank = 0; rank < job.size(); ++rank) {
      if (rank == victim) continue;
      const std::string error = job[rank]->line({"error"});
      CAPTURE(error);
      CHECK(error.find(name) != std::string::npos);
      CHECK(error.find(pid) != std::string::npos);
      CHECK(error.find("generation ") != std::string::npos);
    }
  }
}

TEST_CASE("group_processes: a process whose training thread hangs is named, with its host and pid") {
  for (const char* engine : {kEngines[0], kEngines[1]}) {
    CAPTURE(engine);
    auto job = start(3, 1, 1'000'000, engine, "hangs");
    for (const std::size_t rank : {0, 2}) {
      const std::string error = job[rank]->line({"error"});
      CAPTURE(error);
      CHECK(error.find("rank 1") != std::string::npos);
      CHECK(error.find("(pid " + std::to_string(job[1]->pid()) + ")") != std::string::npos);
      CHECK(error.find("generation ") != std::string::npos);
      CHECK(error.find("rank 1 waited") == std::string::npos);
    }
  }
}

// The new one comes to the address of the old job; whoever of that is frozen still has no part in it.
TEST_CASE("group_processes: after a death the others train anew, with a process in its place or without") {
  const std::string expected = digest_alone(40, 3);
  const std::string expected_of_two = digest_alone(40, 2);
  for (const char* engine : {kEngines[0], kEngines[1]})
    for (const std::size_t victim : {0, 1, 2}) {
      CAPTURE(engine);
      CAPTURE(victim);
      const bool is_replaced = victim != 2;  // else the two others go on as a job of two
      const int port = free_port();
      std::vector<std::unique_ptr<TrainingRank>> job;
      RankStart place{.ranks = 3, .port = port, .devices = 1, .steps = 1'000'000, .engine = engine};
      for (place.rank = 0; place.rank < 3; ++place.rank) {
        place.first = place.rank;
        place.then = {std::to_string(place.rank), is_replaced ? "3" : "2", "40"};
        job.push_back(std::make_unique<TrainingRank>(place));
      }
      for (const auto& rank : job) rank->await_steps();
      job[victim]->signal(SIGKILL);
      for (std::size_t rank = 0; rank < 3; ++rank)
        if (rank != victim)
          CHECK(job[rank]->line({"error"}).find("rank " + std::to_string(victim)) != std::string::npos);
      place = {.rank = victim, .ranks = 3, .port = port, .devices = 1, .steps = 40, .engine = engine, .first = victim};
      place.second_job = true;
      if (is_replaced)
        job[victim] = std::make_unique<TrainingRank>(place);
      else
        job.pop_back();
      for (const auto& rank : job) CHECK(rank->line({"digest", "error"}) == (is_replaced ? expected : expected_of_two));
    }
}

// Rank 0 ends its backward, and its reductions wait for rank 1, whose backward waits for rank 0.
TEST_CASE("group_processes: a collective of backward that one process does not post is told, not what it holds up") {
  for (const ProcessEngine engine : {ProcessEngine::automatic, ProcessEngine::network}) {
    const int port = free_port();
    const auto errors = errors_of_devices(2, [&](std::size_t rank) {
      ProcessGroup processes(place_of(static_cast<int>(rank), 2, port), {.silence = 20s, .engine = engine});
      const Device device = cpu(static_cast<std::uint16_t>(rank));
      GradientSync sync(processes, {device}, {.fail_after = 1500ms});
      auto replicas = sync.replicate(TwoBranches{});
      auto step = sync.step(device);
      const Tensor own = replicas[0].left * replicas[0].right;
      const Tensor all = sync.all_reduce(device, own, CollectiveOperation::sum, "the contrast").resolve();
      step.backward(sum(rank == 0 ? own : all));
    });
    for (const std::string& error : errors) {
      CAPTURE(error);
      CHECK(error.find("collective 2") != std::string::npos);
      CHECK(error.find("for the gradient of the contrast") != std::string::npos);
      CHECK(error.find("from rank 0") != std::string::npos);
    }
  }
}

TEST_CASE("group_processes: a stopped process is named by all others, and hears of it when it goes on") {
  for (const char* engine : {kEngines[0], kEngines[1]}) {
    CAPTURE(engine);
    auto job = start(3, 1, 1'000'000, engine, "", 2000);
    for (const auto& rank : job) rank->await_steps();
    job[1]->signal(SIGSTOP);
    for (const std::size_t rank : {0, 2}) {
      const std::string error = job[rank]->line({"error"});
      CAPTURE(error);
      CHECK(error.find("rank 1 on ") != std::string::npos);
      CHECK(error.find("has said nothing for") != std::string::npos);
    }
    job[1]->signal(SIGCONT);
    const std::string error = job[1]->line({"error"});
    CAPTURE(error);
    CHECK(error.find("stood still for") != std::string::npos);
    CHECK(error.find("rank 1 on ") != std::string::npos);
    CHECK(error.find("rank 0 on ") == std::string::npos);  // it accuses nobody
  }
}

TEST_CASE("group_processes: a process that stood still while its group was given up says so, and names nobody") {
  const int port = free_port();
  std::vector<std::unique_ptr<TrainingRank>> job;
  for (const std::size_t rank : {0, 1, 2})
    job.push_back(std::make_unique<TrainingRank>(RankStart{.rank = rank,
                                                           .ranks = 3,
                                                           .port = port,
                                                           .steps = 1,
                                                           .way = rank == 2 ? "absent" : "",
                                                           .silence = 1'500,
                                                           .rendezvous = 4'000}));
  for (const auto& rank : job) REQUIRE(rank->line({"ready", "error"}) == "ready");
  job[1]->signal(SIGSTOP);
  const std::string told = job[0]->line({"error"});
  CAPTURE(told);
  CHECK(told.find("rank 1 on ") != std::string::npos);
  CHECK(told.find("has said nothing for") != std::string::npos);
  std::this_thread::sleep_for(4s);  // its own deadline, too, is over before it goes on
  job[1]->signal(SIGCONT);
  const std::string error = job[1]->line({"error"});
  CAPTURE(error);
  CHECK(error.find("rank 1 on ") != std::string::npos);
  CHECK(error.find("stood still for") != std::string::npos);
  for (const char* other : {"rank 0 on ", "for rank 0", "rank 2"}) CHECK(error.find(other) == std::string::npos);
}

TEST_CASE("group_processes: MPI is refused by every process where mpirun did not start it") {
  CHECK_THROWS_WITH_AS(ProcessGroup({}, {.engine = ProcessEngine::mpi}),
                       "[sync] ProcessEngine::mpi: this process cannot use MPI: mpirun did not start it", SyncError);
  const int port = free_port();
  std::vector<std::unique_ptr<TrainingRank>> job;
  for (const std::size_t rank : {0, 1})
    job.push_back(std::make_unique<TrainingRank>(
        RankStart{.rank = rank, .ranks = 2, .port = port, .steps = 1, .engine = "mpi", .first = rank}));
  for (const auto& rank : job)
    CHECK(rank->line({"digest", "error"}) ==
          "error: [sync] ProcessEngine::mpi: rank 0 cannot use MPI: mpirun did not start it");
}

TEST_SUITE_END();
