// SPDX-License-Identifier: Apache-2.0
// Trainings of several processes, some of which are killed or stopped: training_process.cpp.
#include <tutti/tests/distributed/processes/training_rank.h>

#include <doctest/doctest.h>

#include <signal.h>

#include <memory>
#include <string>
#include <vector>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr const char* kEngines[] = {"", "network", "plain"};  // words for training_process

std::vector<std::unique_ptr<TrainingRank>> start(std::size_t ranks, std::size_t devices, int steps,
                                                 const char* engine) {
  const int port = free_port();
  std::vector<std::unique_ptr<TrainingRank>> all;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    all.push_back(std::make_unique<TrainingRank>(RankStart{.rank = rank,
                                                           .ranks = ranks,
                                                           .port = port,
                                                           .devices = devices,
                                                           .steps = steps,
                                                           .engine = engine,
                                                           .first = rank * devices}));
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

TEST_CASE("group_processes: a killed process, any rank, is named by all others") {
  for (const std::size_t turn : {0, 1, 2, 3, 4, 5}) {
    const std::size_t victim = turn % 3;
    auto job = start(3, 1, 1'000'000, kEngines[turn / 3]);
    for (const auto& rank : job) REQUIRE(rank->line({"step", "error"}).starts_with("step"));
    const std::string name = "rank " + std::to_string(victim) + " on ";
    const std::string pid = "(pid " + std::to_string(job[victim]->pid()) + ")";
    job[victim]->signal(SIGKILL);
    for (std::size_t rank = 0; rank < job.size(); ++rank) {
      if (rank == victim) continue;
      const std::string error = job[rank]->line({"error"});
      CAPTURE(error);
      CHECK(error.find(name) != std::string::npos);
      CHECK(error.find(pid) != std::string::npos);
    }
  }
}

TEST_CASE("group_processes: a stopped process is named by all others, and hears of it when it goes on") {
  for (const char* engine : {kEngines[0], kEngines[1]}) {
    CAPTURE(engine);
    auto job = start(3, 1, 1'000'000, engine);
    for (const auto& rank : job) REQUIRE(rank->line({"step", "error"}).starts_with("step"));
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
    CHECK(error.find("rank 1 on ") != std::string::npos);
    CHECK(error.find("rank 0 on ") == std::string::npos);  // it accuses nobody
  }
}

TEST_SUITE_END();
