// SPDX-License-Identifier: Apache-2.0
// A ProcessGroup's CUDA devices on the recording machine: each group is on a thread of the test.
#include <tutti/distributed/process_group.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/distributed/communicator.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/distributed/processes/process_link.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/loss.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/engines/nccl/nccl_machine.h>
#include <tutti/tests/distributed/processes/control/job.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

using namespace tutti;
using namespace tutti::testing;

namespace {

/// Runs `work(processes)` for each rank, on a thread of its own; returns what each threw.
template <class Work> std::vector<std::string> run_group(int size, Work work) {
  const int port = free_port();
  return errors_of_devices(static_cast<std::size_t>(size), [&](std::size_t rank) {
    ProcessGroup processes(place_of(static_cast<int>(rank), size, port), {});
    work(processes);
  });
}

/// `rank_1_fails`: the step in which rank 1 throws.
void train(ProcessGroup& processes, GradientSync& sync, Device device, int steps, int rank_1_fails = -1) {
  Generator random(1);
  auto replicas = sync.replicate(Linear(8, 4, random));
  Sgd optimizer(replicas[0].parameters(), 0.1);
  const Tensor input(Array::from(std::vector<float>(6 * 8, 0.5F), {6, 8}, device));
  const Tensor target(Array::from(std::vector<std::int64_t>(6, 1), {6}, device));
  const Tensor one(Array::from(std::vector<float>{1}, {1}, device));
  const bool early = processes.rank() == 1;
  for (int i = 0; i < steps; ++i) {
    if (i == rank_1_fails && processes.rank() == 1) throw Error("rank 1 has no more data");
    optimizer.zero_grad();
    PendingTensor ranks = sync.all_reduce(device, one);
    std::optional<Tensor> sum;
    if (early) sum = ranks.resolve();
    auto step = sync.step(device, 6);
    step.backward(cross_entropy(replicas[0].forward(input), target));
    if (!early) sum = ranks.resolve();
    step.join();
    optimizer.step();
    synchronize(device);
    CHECK(sum->to_vector<float>()[0] == static_cast<float>(processes.size()));
  }
}

}  // namespace

TEST_CASE("nccl process group: devices of two and three processes train in one order") {
  for (const int size : {2, 3}) {
    const NcclMachine machine(size);
    throw_first(run_group(size, [](ProcessGroup& processes) {
      const Device device = cuda(processes.local_rank());
      GradientSync sync(processes, {device}, {.bucket_bytes = 64});
      CHECK(std::string(processes.engine()) == "NCCL");
      train(processes, sync, device, 10);
      sync.leave(device);
      synchronize(device);
    }));
    CHECK(machine.nccl.count("ncclAllReduce") >= static_cast<std::size_t>(size) * 10 * 2);
    CHECK(machine.nccl.alive() == 0);
  }
}

TEST_CASE("nccl process group: devices of two kinds are refused by their names, on all") {
  const NcclMachine machine(2);
  for (const std::string& error : run_group(2, [](ProcessGroup& processes) {
         GradientSync sync(processes, {processes.rank() == 0 ? cuda(0) : cpu(0)});
       }))
    CHECK(error == "[sync] rank 0 has cuda:0 and rank 1 has cpu:0: a group has devices of one kind");
}

TEST_CASE("nccl process group: a group without devices is refused") {
  for (const std::string& error :
       run_group(1, [](ProcessGroup& processes) { (void)processes.connect({}, std::chrono::seconds(1)); }))
    CHECK(error == "[sync] a group needs at least one device");
}

TEST_CASE("nccl process group: the network engine is refused for CUDA devices") {
  const NcclMachine machine(1);
  const int port = free_port();
  for (const std::string& error : errors_of_devices(2, [&](std::size_t rank) {
         ProcessGroup processes(place_of(static_cast<int>(rank), 2, port), {.engine = ProcessEngine::network});
         GradientSync sync(processes, {cuda(0)});
       }))
    CHECK(error == "[sync] ProcessEngine::network connects CPU devices, not cuda:0");
}

TEST_CASE("nccl process group: a process that gives up is named by the other") {
  const NcclMachine machine(2);
  const auto errors = run_group(2, [](ProcessGroup& processes) {
    const Device device = cuda(processes.rank());
    GradientSync sync(processes, {device});
    train(processes, sync, device, 4, 2);
  });
  CAPTURE(errors[0]);
  CHECK(errors[0].find("rank 1 ") != std::string::npos);
  CHECK(errors[1] == "rank 1 has no more data");
  CHECK(machine.nccl.alive() == 0);
}
