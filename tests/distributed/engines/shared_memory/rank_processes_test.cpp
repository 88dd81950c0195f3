// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/distributed/engines/shared_memory/rank_group.h>
#include <tutti/tests/sanitizers.h>

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

// Of this library, or of the group of this name: what else comes and goes there is other programs'.
std::vector<std::string> files_in_dev_shm(const std::string& group) {
  std::vector<std::string> names;
  std::error_code missing;
  for (const auto& each : std::filesystem::directory_iterator("/dev/shm", missing)) {
    const std::string name = each.path().filename();
    if (name.find("tutti") != std::string::npos || name.find(group) != std::string::npos) names.push_back(name);
  }
  return names;
}

Array ones() {
  Array slice = Array::full({50'000}, 1.0, DType::f32, cpu(0));
  synchronize(cpu(0));
  return slice;
}

void reduce_ones(SharedMemoryCommunicator& communicator) {
  communicator.all_reduce({.slices = {{ones(), true}}, .ready = {}})->join(cpu(0));
}

// Rank 1 is killed in the middle of a reduction; the others' error is returned.
std::string error_of_survivor(SharedMemoryCommunicator& communicator, std::size_t rank) {
  for (int round = 0; round < 20; ++round) reduce_ones(communicator);
  if (rank == 1) {
    const auto task = communicator.all_reduce({.slices = {{ones(), true}}, .ready = {}});
    communicator.crew().help(cpu(0));
    kill(getpid(), SIGKILL);
  }
  try {
    for (int round = 0; round < 3; ++round) reduce_ones(communicator);
  } catch (const SyncError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

// Run in a process of its own, by RankProcess; there is nothing to do without its variable.
TEST_CASE("shared_memory: a rank's process") {
  const char* what = std::getenv("TUTTI_TEST_RANK");
  if (what == nullptr) return;
  std::istringstream words(what);
  std::string role;
  std::string name;
  std::size_t rank = 0;
  std::size_t ranks = 0;
  std::size_t devices = 0;
  words >> role >> name >> rank >> ranks >> devices;
  SharedMemoryOptions options = small_pieces();
  if (role == "survive") options.patience = std::chrono::milliseconds(1500);
  const auto communicator =
      SharedMemoryCommunicator::connect(name, 1, members_of_ranks(ranks, devices), static_cast<int>(rank), options);
  if (role == "reduce") {
    reduce_many(*communicator, rank, ranks, devices, kIsSanitized ? 25 : 200);
  } else if (role == "survive") {
    const std::string error = error_of_survivor(*communicator, rank);
    CHECK(error.find("rank 1 has not ") != std::string::npos);
    CHECK(error.find(" reduction ") != std::string::npos);
  } else {
    FAIL("unknown role");
  }
}

TEST_CASE("shared_memory: ranks that are processes have the bits of one process") {
  for (const std::size_t ranks : {2, 3, 4}) {
    const std::size_t devices = ranks == 4 ? 1 : 2;
    const std::string name = fresh_name();
    std::vector<std::unique_ptr<RankProcess>> processes;
    for (std::size_t rank = 0; rank < ranks; ++rank)
      processes.push_back(std::make_unique<RankProcess>("reduce", name, rank, ranks, devices));
    for (const auto& process : processes) CHECK(process->status() == 0);
  }
}

TEST_CASE("shared_memory: others end by their deadline when a process is killed, and leave nothing") {
  const std::string name = fresh_name();
  const std::size_t descriptors = open_descriptors();
  {
    std::vector<std::unique_ptr<RankProcess>> processes;
    for (std::size_t rank = 0; rank < 3; ++rank)
      processes.push_back(std::make_unique<RankProcess>("survive", name, rank, 3, 1));
    const int killed = processes[1]->status();
    CHECK((WIFSIGNALED(killed) && WTERMSIG(killed) == SIGKILL));
    CHECK(processes[0]->status() == 0);
    CHECK(processes[2]->status() == 0);
  }
  CHECK(files_in_dev_shm(name).empty());
  CHECK(open_descriptors() == descriptors);
}

TEST_CASE("shared_memory: others end by an abort when a process is killed") {
  const std::string name = fresh_name();
  const std::size_t descriptors = open_descriptors();
  {
    RankProcess other("survive", name, 1, 2, 1);
    const auto communicator = SharedMemoryCommunicator::connect(name, 1, members_of_ranks(2, 1), 0, small_pieces());
    std::thread watch([&] {
      const int status = other.status();
      communicator->abort(WIFSIGNALED(status) ? "rank 1 was killed by a signal" : "rank 1 has ended");
    });
    CHECK(error_of_survivor(*communicator, 0).find("epoch 1 has ended: rank 1 was killed by a signal") !=
          std::string::npos);
    watch.join();
  }
  CHECK(open_descriptors() == descriptors);
}

TEST_SUITE_END();
