// SPDX-License-Identifier: Apache-2.0
// The one order in which processes launch gradients and users' collectives, on the recording machine: each engine, and
// each group, plays a process with one device.
#include <tutti/distributed/process_group/launch_link.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/cuda/runtime/cuda_stream.h>
#include <tutti/backend/error.h>
#include <tutti/backend/process/error_text.h>
#include <tutti/distributed/engines/nccl/nccl_group.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/nn/embedding.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/loss.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/engines/nccl/nccl_machine.h>
#include <tutti/tests/distributed/processes/in_process_link.h>

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

using namespace tutti;
using namespace tutti::testing;

namespace {

using namespace std::chrono_literals;
using Values = std::vector<float>;

Device device_of(std::size_t rank) { return cuda(static_cast<std::uint16_t>(rank)); }

/// Two processes, whose links are opened by the test or by groups. `deferred`: nothing runs by itself, which steps of
/// several processes wait for.
struct TwoProcesses {
  explicit TwoProcesses(std::chrono::milliseconds patience = 10s, bool deferred = true) : machine(2, deferred) {
    const ncclUniqueId id = make_nccl_id(cuda(0));
    auto plain = InProcessLinks::make({1, 1}, DeviceKind::cuda);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      const auto order = std::make_shared<LaunchOrder>();
      engines[rank] = std::make_unique<NcclCommunicator>(
          std::vector{device_of(rank)}, NcclMembership{.id = id, .world = 2, .first_rank = static_cast<int>(rank)}, 10s,
          patience, order);
      links[rank] = std::make_unique<LaunchLink>(std::move(plain[rank]), order);
    }
  }
  void open() {
    for (const auto& link : links) link->open({.said = [](auto, auto) {}, .ended = [](const auto&) {}});
  }
  std::shared_ptr<CollectiveTask> gradient(std::size_t rank, const Array& array) {
    return engines[rank]->all_reduce(
        {.slices = {{array}}, .ready = {compute_stream(device_of(rank)).record()}, .parameter = "encoder.weight"});
  }
  std::shared_ptr<CollectiveTask> collective(std::size_t rank, const Array& array) {
    CollectiveRequest request;
    request.ready = {compute_stream(device_of(rank)).record()};
    request.inputs.resize(2);
    request.inputs[rank] = array;
    request.outputs = request.inputs;
    request.parts = {{array.size(), {{0, 0}, {1, 0}}, {{0, 0}, {1, 0}}}};
    return engines[rank]->collective(request);
  }

  NcclMachine machine;
  std::array<std::unique_ptr<NcclCommunicator>, 2> engines;
  std::array<std::unique_ptr<ProcessLink>, 2> links;
};

Array on(std::size_t rank, const Values& values) {
  return Array::from(values, {static_cast<std::int64_t>(values.size())}, device_of(rank));
}

std::string error_of(const std::shared_ptr<CollectiveTask>& task) {
  task->wait();
  return text_of(task->error());
}

}  // namespace

TEST_CASE("nccl order: requests of both sequences, made in different orders, are launched in one") {
  TwoProcesses both;
  both.open();
  for (int round = 0; round < 20; ++round) {
    std::array<Array, 2> gradients{on(0, {1, 2}), on(1, {10, 20})};
    std::array<Array, 2> values{on(0, {3, 4, 5}), on(1, {30, 40, 50})};
    run_devices(2, [&](std::size_t rank) {
      std::vector<std::shared_ptr<CollectiveTask>> tasks;
      if (rank == 0) tasks.push_back(both.gradient(rank, gradients[rank]));
      tasks.push_back(both.collective(rank, values[rank]));
      if (rank == 1) tasks.push_back(both.gradient(rank, gradients[rank]));
      join_tasks(device_of(rank), tasks);
      synchronize(device_of(rank));
    });
    for (std::size_t rank = 0; rank < 2; ++rank) {
      CHECK(gradients[rank].to_vector<float>() == Values{11, 22});
      CHECK(values[rank].to_vector<float>() == Values{33, 44, 55});
    }
  }
  CHECK(both.machine.nccl.count("ncclAllReduce") == 80);
}

TEST_CASE("nccl order: a process that does not come to a reduction is named in time") {
  TwoProcesses both(200ms);
  both.open();
  const auto task = both.gradient(0, on(0, {1, 2}));
  const std::string text =
      "[nccl] the all_reduce of 2 f32 from parameter \"encoder.weight\" on has waited 200 ms for rank 1";
  CHECK(error_of(task) == text);
  CHECK_THROWS_WITH_AS(both.gradient(0, on(0, {1, 2})), text.c_str(), SyncError);
  CHECK(both.machine.nccl.count("ncclAllReduce") == 0);
}

TEST_CASE("nccl order: an abort ends what waits for its turn, what runs and what comes later, with its reason") {
  TwoProcesses both;
  both.open();
  const auto first = both.gradient(0, on(0, {1, 2}));
  both.engines[0]->abort("rank 1 has died");
  CHECK(error_of(first) == "rank 1 has died");
  CHECK_THROWS_WITH_AS(both.collective(0, on(0, {1})), "rank 1 has died", SyncError);
  both.engines[0]->abort("another reason");
  CHECK_THROWS_WITH_AS(both.collective(0, on(0, {1})), "rank 1 has died", SyncError);
  for (const auto& link : both.links) link->close();
  for (auto& engine : both.engines) engine.reset();
  CHECK(both.machine.nccl.alive() == 0);
}

TEST_CASE("nccl order: processes that connect look around meanwhile, and end for what they see") {
  TwoProcesses both;
  both.open();
  both.machine.nccl.polls_to_connect = 1 << 30;
  const auto look_around = [] { throw SyncError("rank 1 has died"); };
  CHECK_THROWS_WITH_AS(both.engines[0]->connect_now(look_around), "rank 1 has died", SyncError);
  CHECK_THROWS_WITH_AS(both.gradient(0, on(0, {1})), "rank 1 has died", SyncError);
  for (auto& engine : both.engines) engine.reset();
  CHECK(both.machine.nccl.alive() == 0);
}

TEST_CASE("nccl order: groups of two processes train, with collectives that each waits for elsewhere in its step") {
  TwoProcesses both(10s, false);
  run_devices(2, [&](std::size_t rank) {
    const Device device = device_of(rank);
    both.engines[rank]->connect_now({});
    GradientSync sync({device}, {.bucket_bytes = 64}, std::move(both.engines[rank]), std::move(both.links[rank]));
    Generator random(1);
    auto replicas = sync.replicate(Linear(8, 4, random));
    Sgd optimizer(replicas[0].parameters(), 0.1);
    const Tensor input(Array::from(Values(6 * 8, 0.5F), {6, 8}, device));
    const Tensor target(Array::from(std::vector<std::int64_t>(6, 1), {6}, device));
    for (int i = 0; i < 5; ++i) {
      optimizer.zero_grad();
      PendingTensor sum = sync.all_reduce(device, Tensor(on(rank, {1, static_cast<float>(rank)})));
      std::optional<Tensor> result;
      if (rank == 0) result = sum.resolve();
      auto step = sync.step(device, 6);
      step.backward(cross_entropy(replicas[0].forward(input), target));
      if (rank == 1) result = sum.resolve();
      step.join();
      optimizer.step();
      synchronize(device);
      CHECK(result->to_vector<float>() == Values{2, 1});
    }
    sync.leave(device);
    synchronize(device);
  });
  CHECK(both.machine.nccl.count("ncclAllReduce") >= 2 * 5 * 2);
}

TEST_CASE("nccl order: a failure in one process ends the other's step with its text") {
  TwoProcesses both(10s, false);
  const auto errors = errors_of_devices(2, [&](std::size_t rank) {
    const Device device = device_of(rank);
    GradientSync sync({device}, {}, std::move(both.engines[rank]), std::move(both.links[rank]));
    Generator random(1);
    auto replicas = sync.replicate(Linear(8, 4, random));
    const Tensor input(Array::from(Values(6 * 8, 0.5F), {6, 8}, device));
    for (int i = 0; i < 3; ++i) {
      replicas[0].zero_grad();
      sync.step(device, 6, [&](Step& step) {
        if (rank == 1 && i == 1) throw Error("no more data");
        step.backward(sum(replicas[0].forward(input)));
        step.join();
      });
    }
  });
  for (const std::string& error : errors) CHECK_MESSAGE(error.find("no more data") != std::string::npos, error);
}

TEST_CASE("nccl order: sparse gradients are refused by name when they are attached") {
  TwoProcesses both;
  const auto errors = errors_of_devices(2, [&](std::size_t rank) {
    GradientSync sync({device_of(rank)}, {}, std::move(both.engines[rank]), std::move(both.links[rank]));
    Generator random(1);
    auto replicas = sync.replicate(Embedding(10, 2, random, {.sparse = true}));
  });
  for (const std::string& error : errors)
    CHECK(error ==
          "[sync] parameter \"weight\" has sparse gradients, which the engine between these processes cannot reduce: "
          "mark it dense with set_sparse_grad(false) before it is attached");
}

namespace {

/// Errors of a step whose reduction both have launched, but which cuda:1 does not come to. `meanwhile()` runs then.
template <class Work> std::vector<std::string> errors_while_one_hangs(TwoProcesses& both, Work meanwhile) {
  auto& stream = static_cast<CudaStream&>(both.machine.backend->communication_stream(cuda(1)));
  both.machine.cuda_machine.hang(stream.handle());
  auto errors = errors_of_devices(3, [&](std::size_t rank) {
    if (rank == 2) {
      for (int i = 0; i < 5000 && both.machine.nccl.count("ncclAllReduce") < 2; ++i) std::this_thread::sleep_for(1ms);
      std::this_thread::sleep_for(50ms);  // both wait for the step by now
      return meanwhile();
    }
    const Device device = device_of(rank);
    GradientSync sync({device}, {}, std::move(both.engines[rank]), std::move(both.links[rank]));
    Generator random(1);
    auto replicas = sync.replicate(Linear(8, 4, random));
    const Tensor input(Array::from(Values(6 * 8, 0.5F), {6, 8}, device));
    auto step = sync.step(device, 6);
    step.backward(sum(replicas[0].forward(input)));
    step.join();
  });
  both.machine.cuda_machine.resume(stream.handle());
  errors.pop_back();
  return errors;
}

}  // namespace

TEST_CASE("nccl order: a failure that NCCL notices while devices wait for a step ends it in both processes, in time") {
  TwoProcesses both(60s, false);
  const auto begin = std::chrono::steady_clock::now();
  for (const std::string& error :
       errors_while_one_hangs(both, [&] { both.machine.nccl.break_connections(ncclRemoteError); })) {
    CAPTURE(error);
    CHECK(error.find("a remote process failed") != std::string::npos);
  }
  CHECK(std::chrono::steady_clock::now() - begin < 20s);
  CHECK(both.machine.nccl.alive() == 0);
}

TEST_CASE("nccl order: a reduction that never ends is an error in both processes") {
  TwoProcesses both(2s, false);
  const auto begin = std::chrono::steady_clock::now();
  for (const std::string& error : errors_while_one_hangs(both, [] {})) {
    CAPTURE(error);
    CHECK(error.find("has not finished within 2000 ms") != std::string::npos);
  }
  CHECK(std::chrono::steady_clock::now() - begin < 30s);
  CHECK(both.machine.nccl.alive() == 0);
}
