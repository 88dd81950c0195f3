// SPDX-License-Identifier: Apache-2.0
// The lines over MPI between ranks that are threads, over an MPI that is simulated.
#include <tutti/backend/registry.h>
#include <tutti/distributed/engines/network/mpi/connect_mpi.h>
#include <tutti/distributed/engines/network/network_communicator.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/engines/network/mpi/mpi_simulation.h>
#include <tutti/tests/distributed/engines/network/network_group.h>
#include <tutti/tests/sanitizers.h>

#include <doctest/doctest.h>

#include <latch>
#include <numeric>
#include <stdexcept>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

std::vector<std::string> run_over_mpi(MpiSimulation& mpi, const std::vector<std::size_t>& devices,
                                      const std::function<void(std::size_t, NetworkCommunicator&)>& work) {
  const NetworkGroup group(devices);
  std::vector<int> ranks(devices.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return errors_of_devices(devices.size(), [&](std::size_t rank) {
    // Ranks in another order than MPI's.
    MpiRuntime runtime(mpi.rank(devices.size() - 1 - rank));
    const NetworkOptions options = small_frames();
    NetworkCommunicator communicator(
        connect_mpi(runtime, {{1}, devices.size(), static_cast<int>(rank), options.piece_bytes},
                    std::chrono::seconds(30)),
        ranks, static_cast<int>(rank), 1, group.members, options);
    work(rank, communicator);
  });
}

}  // namespace

TEST_CASE("network, mpi: many reductions on their way have the bits of one process") {
  for (const std::vector<std::size_t>& devices :
       {std::vector<std::size_t>{1}, {1, 1}, {2, 2}, {3, 1}, {1, 2, 1}, {1, 1, 1, 1}}) {
    CAPTURE(devices.size());
    MpiSimulation mpi(devices.size());
    throw_first(run_over_mpi(mpi, devices, [&](std::size_t rank, NetworkCommunicator& communicator) {
      reduce_many(communicator, devices, rank, (devices.size() == 2 ? 60 : 20) / (kIsSanitized ? 4 : 1));
    }));
    CHECK(mpi.unreceived() == 0);
    CHECK(!mpi.aborted());
  }
}

// Arrays go when their tasks have failed: nothing reads or writes them any more, which sanitizers see.
TEST_CASE("network, mpi: a failure amid what is on its way is told to all, and memory is let go") {
  for (std::size_t turn = 0; turn < 12; ++turn) {
    CAPTURE(turn);
    MpiSimulation mpi(3);
    const auto errors = run_over_mpi(mpi, {1, 1, 1}, [&](std::size_t rank, NetworkCommunicator& communicator) {
      std::vector<std::shared_ptr<CollectiveTask>> tasks;
      for (std::size_t i = 0; i < 6; ++i) {
        Array slice = Array::full({40'000}, 1.0, DType::f32, cpu(0));
        synchronize(cpu(0));
        tasks.push_back(communicator.all_reduce({.slices = {{std::move(slice), true}}, .ready = {}}));
        if (rank == turn % 3 && i == turn / 3 + 1) communicator.abort("a test says so");
      }
      join_tasks(cpu(0), tasks);
    });
    for (const std::string& error : errors) CHECK(error.find("a test says so") != std::string::npos);
    CHECK(mpi.unreceived() == 0);
    CHECK(!mpi.aborted());
  }
}

TEST_CASE("network, mpi: a rank that goes without what others wait for is named") {
  MpiSimulation mpi(2);
  const auto errors = run_over_mpi(mpi, {1, 1}, [&](std::size_t rank, NetworkCommunicator& communicator) {
    if (rank == 1) return;
    const Array slice = Array::full({100'000}, 1.0, DType::f32, cpu(0));
    synchronize(cpu(0));
    communicator.all_reduce({.slices = {{slice, true}}, .ready = {}})->join(cpu(0));
  });
  CHECK(errors[0].find("rank 1 has gone, and has not") != std::string::npos);
  CHECK(errors[1].empty());
  CHECK(!mpi.aborted());
}

TEST_CASE("network, mpi: an error of MPI is told") {
  MpiSimulation mpi(2);
  std::latch failed(1);
  const auto errors = run_over_mpi(mpi, {1, 1}, [&](std::size_t rank, NetworkCommunicator& communicator) {
    if (rank == 1) return failed.wait();
    mpi.fail(1);  // MPI's number of rank 0
    const Array slice = Array::full({100'000}, 1.0, DType::f32, cpu(0));
    synchronize(cpu(0));
    const auto task = communicator.all_reduce({.slices = {{slice, true}}, .ready = {}});
    try {
      task->join(cpu(0));
    } catch (...) {
      failed.count_down();
      throw;
    }
    failed.count_down();
  });
  CHECK(errors[0].find("a simulated error") != std::string::npos);
}

TEST_SUITE_END();
