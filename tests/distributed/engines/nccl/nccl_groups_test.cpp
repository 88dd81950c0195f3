// SPDX-License-Identifier: Apache-2.0
// A ProcessGroup whose processes share one GPU.
#include <tutti/tests/distributed/engines/nccl/ranks_on_one_gpu.h>
#include <tutti/tests/distributed/processes/control/job.h>

#include <doctest/doctest.h>

using namespace tutti::testing;

namespace {

void run_group(int world) {
  using std::chrono::seconds;
  const auto endings =
      run_processes(ranks_on_one_gpu("group_rank", world, std::to_string(free_port())), seconds(60), seconds(20));
  for (int rank = 0; rank < world; ++rank) {
    CAPTURE(rank);
    CHECK(endings[static_cast<std::size_t>(rank)] == (rank == world - 1 ? "was killed by signal 9" : ""));
  }
}

}  // namespace

TEST_CASE("ranks: a group of two processes on one GPU trains, and names the one that is killed") { run_group(2); }
TEST_CASE("ranks: a group of four processes on one GPU trains, and names the one that is killed") { run_group(4); }
