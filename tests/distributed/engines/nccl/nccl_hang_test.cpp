// SPDX-License-Identifier: Apache-2.0
// Devices that hang, by NCCL's engine without a GPU: who is named, when, and what the others do meanwhile. That nobody
// waits for them, nor uses their memory too early, is checked by the machine.
#include <tutti/backend/error.h>
#include <tutti/backend/process/error_text.h>
#include <tutti/distributed/engines/nccl/nccl_group.h>
#include <tutti/tests/distributed/engines/nccl/nccl_machine.h>
#include <tutti/tests/distributed/given_gradients.h>

#include <doctest/doctest.h>

#include <chrono>
#include <optional>
#include <string>
#include <thread>

using namespace tutti;
using namespace tutti::testing;
using namespace std::chrono_literals;

namespace {

constexpr std::chrono::milliseconds kSoon(200);  // for what hangs
constexpr std::chrono::milliseconds kLong(60'000);

const std::vector<Device> kSurvivors{cuda(0), cuda(2)};

struct HangingMachine : NcclMachine {
  explicit HangingMachine(int count) : NcclMachine(count) {}
  ~HangingMachine() {
    for (const Device device : devices) resume(device);
  }
  HangingMachine(const HangingMachine&) = delete;
  HangingMachine& operator=(const HangingMachine&) = delete;

  void hang(Device device) { cuda_machine.hang(backend->stream(device).handle()); }
  void resume(Device device) { cuda_machine.resume(backend->stream(device).handle()); }
};

/// What `request` needs has been queued, but cuda:1 does not come to it.
std::shared_ptr<CollectiveTask> reduce_while_one_hangs(HangingMachine& machine, NcclCommunicator& engine,
                                                       bool join = true) {
  const std::vector<AllReduceSlice> slices = slices_on(machine.devices);
  machine.hang(cuda(1));
  AllReduceRequest request = sum_of(slices);
  request.parameter = "encoder.weight";
  const auto task = engine.all_reduce(std::move(request));
  if (join) machine.join_all(task);
  return task;
}

std::string error_of(const std::shared_ptr<CollectiveTask>& task) {
  task->wait();
  return text_of(task->error());
}

constexpr const char* kCulprit =
    "[nccl] the all_reduce of 3 f32 from parameter \"encoder.weight\" on has not finished within 200 ms: "
    "cuda:1 has not come to it (in flight since the last synchronisation: ";

/// Makes its gradients on the device, as nothing comes there from the host.
Tensor queued_loss(const std::vector<Tensor>& parameters) {
  return custom_function(
      "queued", parameters, [](std::span<const Array> in) { return Array::zeros({}, DType::f32, in[0].device()); },
      [](std::span<const Array> inputs, const Array&, const Array&) {
        std::vector<Array> gradients;
        for (const Array& input : inputs) gradients.push_back(Array::zeros(input.shape(), DType::f32, input.device()));
        return gradients;
      });
}

}  // namespace

TEST_CASE("nccl hangs: a device that does not come to a collective is named, with both") {
  HangingMachine machine(3);
  const auto engine = std::make_unique<NcclCommunicator>(machine.devices, kLong, kSoon);
  const auto begin = CollectiveTask::Clock::now();
  const auto task = reduce_while_one_hangs(machine, *engine);
  const std::string error = error_of(task);
  CHECK(CollectiveTask::Clock::now() - begin >= kSoon);
  CHECK(CollectiveTask::Clock::now() - begin < kLong / 4);
  CHECK(error.starts_with(kCulprit));
  CHECK(error.find("copy_from_host") != std::string::npos);  // what it is at
  CHECK(error.find("cuda:0") == std::string::npos);
  CHECK(error.find("cuda:2") == std::string::npos);
  CHECK_THROWS_WITH_AS(check_works(*engine, machine.devices), doctest::Contains(kCulprit), SyncError);
}

TEST_CASE("nccl hangs: the others go on, and what the one that hangs may still write is not used before") {
  for (const bool joined : {false, true}) {
    HangingMachine machine(3);
    const auto engine = std::make_unique<NcclCommunicator>(machine.devices, kLong, kSoon);
    CHECK(error_of(reduce_while_one_hangs(machine, *engine, joined)).starts_with(kCulprit));
    const Array memory_again = Array::from(std::vector<float>{7, 8, 9}, {3}, cuda(1));
    if (joined) CHECK_THROWS_AS(check_works(*engine, kSurvivors), SyncError);
    engine->regroup(members_of(kSurvivors));
    check_works(*engine, kSurvivors);
    CHECK(machine.nccl.count("ncclCommRevoke") == 3);
    CHECK(machine.nccl.count("ncclCommShrink") == 2);
    CHECK(machine.nccl.count("ncclCommInitRankConfig") == 3);
    CHECK(machine.nccl.alive() == 2);
    machine.resume(cuda(1));
    CHECK(memory_again.to_vector<float>() == std::vector<float>{7, 8, 9});
    engine->regroup(members_of(machine.devices));
    check_works(*engine, machine.devices);
  }
}

TEST_CASE("nccl hangs: versions without revocation end what runs too") {
  HangingMachine machine(3);
  machine.nccl.version = NCCL_VERSION(2, 26, 5);
  const auto engine = std::make_unique<NcclCommunicator>(machine.devices, kLong, kSoon);
  CHECK(error_of(reduce_while_one_hangs(machine, *engine)).starts_with(kCulprit));
  CHECK_THROWS_AS(check_works(*engine, kSurvivors), SyncError);
  engine->regroup(members_of(kSurvivors));
  check_works(*engine, kSurvivors);
  CHECK(machine.nccl.count("ncclCommRevoke") == 0);
  CHECK(machine.nccl.alive() == 2);
}

TEST_CASE("nccl hangs: a collective that all have come to is told from one that somebody stays away from") {
  HangingMachine machine(1);
  const NcclMembership membership{make_nccl_id(cuda(0)), 2, 0};  // nobody plays the other process
  NcclCommunicator engine({cuda(0)}, membership, kLong, kSoon);
  const auto task = engine.all_reduce(sum_of(slices_on(machine.devices)));
  CHECK(error_of(task) ==
        "[nccl] the all_reduce of 3 f32 has not finished within 200 ms: "
        "all devices here have come to it, but it has not ended on cuda:0");
}

TEST_CASE("nccl hangs: the users' own collectives are named as they were asked for") {
  HangingMachine machine(2);
  NcclCommunicator engine(machine.devices, kLong, kSoon);
  CollectiveRequest request{
      .operation = CollectiveOperation::max, .inputs = {}, .outputs = {}, .ready = {}, .parts = {}};
  for (const Device device : machine.devices) {
    request.inputs.push_back(Array::from(std::vector<float>{1, 2}, {2}, device));
    request.outputs.push_back(Array::empty({2}, DType::f32, device));
  }
  request.parts = {{2, {{0, 0}, {1, 0}}, {{0, 0}, {1, 0}}}};
  request.name = "collective 3 (all_reduce max [2] f32)";
  machine.hang(cuda(1));
  for (const Device device : machine.devices) request.ready.push_back(compute_stream(device).record());
  CHECK(
      error_of(engine.collective(request))
          .starts_with("[nccl] collective 3 (all_reduce max [2] f32) has not finished within 200 ms: cuda:1 has not"));
}

TEST_CASE("nccl hangs: slow devices are waited for, each collective for the whole deadline") {
  HangingMachine machine(3);
  NcclCommunicator engine(machine.devices, kLong, 3s);
  std::vector<std::shared_ptr<CollectiveTask>> tasks;
  const std::vector<AllReduceSlice> slices = slices_on(machine.devices);
  machine.synchronize_all();
  for (const Device device : machine.devices) {
    machine.hang(device);
    tasks.push_back(engine.all_reduce({.slices = slices, .ready = {compute_stream(device).record()}}));
  }
  const auto begin = CollectiveTask::Clock::now();
  for (std::size_t d = 0; d < 3; ++d) {
    std::this_thread::sleep_for(1200ms);
    CHECK(!tasks[d]->finished());
    machine.resume(machine.devices[d]);
    CHECK(error_of(tasks[d]).empty());
  }
  CHECK(CollectiveTask::Clock::now() - begin > 3s);
  machine.join_all(tasks.back());
  for (const AllReduceSlice& slice : slices) CHECK(slice.gradient.to_vector<float>() == std::vector<float>{27, 54, 81});
}

TEST_CASE("nccl hangs: the engine's end, and a group that forms anew, wait for the deadline at most") {
  for (const bool forms_anew : {false, true}) {
    HangingMachine machine(3);
    auto engine = std::make_unique<NcclCommunicator>(machine.devices, kSoon, kLong);
    const auto task = reduce_while_one_hangs(machine, *engine);
    const auto begin = CollectiveTask::Clock::now();
    if (forms_anew) {
      engine->regroup(members_of(kSurvivors));
      check_works(*engine, kSurvivors);
    } else {
      engine = nullptr;
    }
    CHECK(CollectiveTask::Clock::now() - begin < kLong / 4);
    CHECK(error_of(task).starts_with(kCulprit));
  }
}

TEST_CASE("nccl hangs: a request that is wrong is refused at once, though a device hangs") {
  HangingMachine machine(3);
  const std::vector<Device> two{cuda(0), cuda(1)};
  NcclCommunicator engine(two, kLong, 2s);
  const std::vector<AllReduceSlice> slices = slices_on(two);
  const AllReduceRequest wrong = sum_of(slices_on(machine.devices));
  machine.hang(cuda(1));
  const auto task = engine.all_reduce(sum_of(slices));
  CHECK(error_of(engine.all_reduce(wrong)).find("cuda:2 is not in the group") != std::string::npos);
  CHECK(!task->finished());
  CHECK(error_of(task).find("cuda:1 has not come to it") != std::string::npos);
}

TEST_CASE("nccl hangs: a group fails naming the device and its parameter, and ends while it still hangs") {
  HangingMachine machine(3);
  std::optional<GradientSync> sync(std::in_place, machine.devices,
                                   SyncOptions{.fail_after = 500ms, .warn = [](const std::string&) {}});
  auto replicas = sync->replicate(GivenModel());
  machine.synchronize_all();
  machine.hang(cuda(1));
  const auto begin = CollectiveTask::Clock::now();
  const auto errors = errors_of_devices(3, [&](std::size_t d) {
    while (CollectiveTask::Clock::now() - begin < 20s) {
      replicas[d].zero_grad();
      auto step = sync->step(machine.devices[d], 1.0);
      step.backward(queued_loss(used(replicas[d], 0, d)));
      step.join();
      std::this_thread::sleep_for(100ms);
    }
  });
  for (const std::string& error : errors) {
    CAPTURE(error);
    CHECK(error.find("f32 from parameter \"") != std::string::npos);
    CHECK(error.find("has not finished within 500 ms: cuda:1 has not come to it") != std::string::npos);
  }
  sync.reset();
  CHECK(CollectiveTask::Clock::now() - begin < 15s);
  replicas.clear();
}
