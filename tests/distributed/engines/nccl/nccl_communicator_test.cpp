// SPDX-License-Identifier: Apache-2.0
// NCCL's engine without a GPU: the order of what it queues, what it keeps alive, and how it fails.
#include <tutti/distributed/engines/nccl/nccl_communicator.h>

#include <tutti/backend/cuda/runtime/cuda_check.h>
#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/backend/cuda/recording/recording_cuda.h>
#include <tutti/tests/backend/cuda/renewed_backend.h>
#include <tutti/tests/distributed/engines/nccl/recording_nccl.h>
#include <tutti/tests/distributed/engines/nccl/wire_simulation.h>

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <mutex>
#include <string>
#include <thread>

using namespace tutti;
using namespace tutti::testing;

namespace {

/// A machine with two devices and an engine between them.
struct Machine {
  explicit Machine(bool deferred = false, std::chrono::milliseconds deadline = std::chrono::seconds(5))
      : cuda_machine({.devices = 2, .deferred = deferred}), deadline(deadline) {
    simulate_reduction_kernels(cuda_machine);
  }

  std::unique_ptr<NcclCommunicator> connect() {
    return std::make_unique<NcclCommunicator>(std::vector<Device>{cuda(0), cuda(1)}, deadline);
  }

  RecordingCuda cuda_machine;
  RecordingNccl nccl;
  RenewedBackend backend;
  std::chrono::milliseconds deadline;
};

using Tasks = std::vector<std::shared_ptr<CollectiveTask>>;

Array on(std::uint16_t device, std::vector<float> values) {
  return Array::from(values, {static_cast<std::int64_t>(values.size())}, cuda(device));
}

AllReduceRequest sum_of(std::vector<AllReduceSlice> slices, double denominator = 1.0) {
  AllReduceRequest request{.slices = std::move(slices), .ready = {}, .denominator = denominator};
  for (const AllReduceSlice& slice : request.slices)
    request.ready.push_back(compute_stream(slice.gradient.device()).record());
  return request;
}

void join_all(const std::shared_ptr<CollectiveTask>& task) {
  for (const std::uint16_t device : {0, 1}) join_tasks(cuda(device), Tasks{task});
}

void synchronize_all() {
  for (const std::uint16_t device : {0, 1}) synchronize(cuda(device));
}

std::string error_of(const std::shared_ptr<CollectiveTask>& task) {
  try {
    join_tasks(cuda(0), Tasks{task});
    return {};
  } catch (const SyncError& error) {
    return error.what();
  }
}

void check_works(NcclCommunicator& engine) {
  const Array a = on(0, {1, 2});
  const Array b = on(1, {3, 4});
  join_all(engine.all_reduce(sum_of({{a}, {b}}, 2.0)));
  CHECK(a.to_vector<float>() == std::vector<float>{2, 3});
  CHECK(b.to_vector<float>() == std::vector<float>{2, 3});
}

void check_contains(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) CHECK_MESSAGE(text.find(part) != std::string::npos, text, " lacks ", part);
}

}  // namespace

TEST_CASE("nccl: two devices average in place, behind their inputs and in front of what follows") {
  for (const bool deferred : {false, true}) {
    Machine machine(deferred);
    const auto engine = machine.connect();
    check_works(*engine);
    check_works(*engine);  // on the same communicators
    CHECK(machine.nccl.count("ncclCommInitRankConfig") == 2);
    CHECK(machine.nccl.count("ncclAllReduce") == 4);
  }
}

TEST_CASE("nccl: a device without a slice sends zeros, and so does one that does not contribute") {
  Machine machine(true);
  const auto engine = machine.connect();
  const Array alone = on(0, {1, 2, 3});
  join_all(engine->all_reduce(sum_of({{alone}})));
  CHECK(alone.to_vector<float>() == std::vector<float>{1, 2, 3});
  synchronize_all();
  CHECK(machine.nccl.count("ncclAllReduce") == 2);
  const Array silent = on(1, {std::nanf(""), 7, 7});
  AllReduceRequest request = sum_of({{alone}, {silent, false}});
  request.ready.pop_back();  // nobody says from when on the silent device's memory may be written
  join_all(engine->all_reduce(request));
  CHECK(silent.to_vector<float>() == std::vector<float>{1, 2, 3});
  synchronize_all();
}

TEST_CASE("nccl: tasks end by themselves, in order, and let their arrays go") {
  Machine machine;
  const auto engine = machine.connect();
  std::weak_ptr<Storage> kept;
  Tasks tasks;
  {
    const Array a = on(0, {1});
    const Array b = on(1, {2});
    kept = a.storage();
    for (int i = 0; i < 3; ++i) tasks.push_back(engine->all_reduce(sum_of({{a}, {b}})));
  }
  for (const auto& task : tasks) task->wait();
  CHECK(kept.expired());
  CHECK(!tasks.front()->error());
}

TEST_CASE("nccl: while reductions are off nothing is called") {
  Machine machine;
  const auto engine = machine.connect();
  engine->set_enabled(false);
  const Array a = on(0, {1});
  const Array b = on(1, {2});
  join_all(engine->all_reduce(sum_of({{a}, {b}})));
  CHECK(a.to_vector<float>() == std::vector<float>{1});
  CHECK(machine.nccl.count("ncclGroupStart") == 0);
}

TEST_CASE("nccl: collectives send, sum and combine part by part") {
  Machine machine(true);
  const auto engine = machine.connect();
  std::vector<Array> inputs{on(0, {1, 2, 3, 4}), on(1, {10, 20, 30, 40})};
  const auto outputs = [](std::int64_t size) {
    return std::vector<Array>{Array::empty({size}, DType::f32, cuda(0)), Array::empty({size}, DType::f32, cuda(1))};
  };
  const auto run = [&](CollectiveRequest request) {
    request.inputs = inputs;
    for (const Array& input : inputs) request.ready.push_back(compute_stream(input.device()).record());
    join_all(engine->collective(request));
    return std::pair(request.outputs[0].to_vector<float>(), request.outputs[1].to_vector<float>());
  };
  using Values = std::vector<float>;

  SUBCASE("mean to all") {
    const auto [a, b] = run({.operation = CollectiveOperation::mean,
                             .inputs = {},
                             .outputs = outputs(4),
                             .ready = {},
                             .parts = {{4, {{0, 0}, {1, 0}}, {{0, 0}, {1, 0}}}}});
    CHECK(a == Values{5.5, 11, 16.5, 22});
    CHECK(b == a);
    CHECK(machine.nccl.count("ncclAllReduce") == 2);
  }
  SUBCASE("reduce_scatter") {
    const auto [a, b] = run({.inputs = {},
                             .outputs = outputs(2),
                             .ready = {},
                             .parts = {{2, {{0, 0}, {1, 0}}, {{0, 0}}}, {2, {{0, 2}, {1, 2}}, {{1, 0}}}}});
    CHECK(a == Values{11, 22});
    CHECK(b == Values{33, 44});
    CHECK(machine.nccl.count("ncclReduce") == 4);
  }
  SUBCASE("all_to_all") {
    const auto [a, b] =
        run({.inputs = {},
             .outputs = outputs(4),
             .ready = {},
             .parts = {
                 {2, {{0, 0}}, {{0, 0}}}, {2, {{0, 2}}, {{1, 0}}}, {2, {{1, 0}}, {{0, 2}}}, {2, {{1, 2}}, {{1, 2}}}}});
    CHECK(a == Values{1, 2, 10, 20});
    CHECK(b == Values{3, 4, 30, 40});
  }
  SUBCASE("broadcast, and zeros for whom nobody sends") {
    const auto [a, b] = run({.inputs = {},
                             .outputs = outputs(4),
                             .ready = {},
                             .parts = {{2, {{1, 1}}, {{0, 0}, {1, 0}}}, {2, {}, {{0, 2}, {1, 2}}}}});
    CHECK(a == Values{20, 30, 0, 0});
    CHECK(b == a);
  }
  SUBCASE("in place, of some members only: nobody is sent what is half done") {
    CollectiveRequest request{.operation = CollectiveOperation::max,
                              .inputs = {},
                              .outputs = inputs,
                              .ready = {},
                              .parts = {{4, {{0, 0}, {1, 0}}, {{0, 0}, {1, 0}}}}};
    const auto [a, b] = run(request);
    CHECK(a == Values{10, 20, 30, 40});
    CHECK(b == a);
  }
  SUBCASE("max keeps NaN") {
    inputs[1] = on(1, {std::numeric_limits<float>::quiet_NaN(), 1, 50, 4});
    const auto [a, b] = run({.operation = CollectiveOperation::max,
                             .inputs = {},
                             .outputs = outputs(4),
                             .ready = {},
                             .parts = {{4, {{0, 0}, {1, 0}}, {{0, 0}, {1, 0}}}}});
    CHECK(std::isnan(a[0]));
    CHECK(Values(b.begin() + 1, b.end()) == Values{2, 50, 4});
  }
}

TEST_CASE("nccl: whichever of its calls fails, the task says which, nothing is left, and the next one works") {
  for (const char* call : {"ncclGetVersion", "ncclGetUniqueId", "ncclGroupStart", "ncclCommInitRankConfig",
                           "ncclGroupEnd", "ncclCommGetAsyncError", "ncclAllReduce"}) {
    for (const std::size_t nth : {1, 2}) {
      Machine machine;
      const auto engine = machine.connect();
      const bool once = std::string(call).starts_with("ncclGet");
      if (once && nth == 2) continue;  // called once
      machine.nccl.fail_call(call, nth, ncclSystemError);
      CAPTURE(call);
      CAPTURE(nth);
      const Array a = on(0, {1});
      const Array b = on(1, {2});
      const auto task = engine->all_reduce(sum_of({{a}, {b}}));
      std::string error = error_of(task);
      task->wait();  // the engine's thread may find out after the launch
      if (error.empty() && task->error()) error = error_of(task);
      check_contains(error, {call, "cuda:"});
      check_works(*engine);
      CHECK(machine.nccl.alive() == 2);
    }
  }
}

TEST_CASE("nccl: a failure of what runs ends all that is in flight, and later collectives connect anew") {
  Machine machine(true);  // nothing runs by itself
  const auto engine = machine.connect();
  const Array a = on(0, {1});
  const Array b = on(1, {2});
  const Tasks tasks{engine->all_reduce(sum_of({{a}, {b}})), engine->all_reduce(sum_of({{a}, {b}}))};
  join_all(tasks[1]);  // both are launched
  machine.nccl.break_connections(ncclRemoteError);
  for (const auto& task : tasks) {
    task->wait();
    check_contains(error_of(task), {"[nccl] cuda:", "remote process failed"});
  }
  // Whoever had joined them knows nothing yet, and has used what they left.
  CHECK_THROWS_WITH_AS(engine->all_reduce(sum_of({{a}, {b}})), doctest::Contains("remote process failed"), SyncError);
  check_works(*engine);
  CHECK(machine.nccl.alive() == 2);
}

TEST_CASE("nccl: devices that do not connect within the deadline are an error, not a hang") {
  Machine machine(false, std::chrono::milliseconds(30));
  machine.nccl.polls_to_connect = std::numeric_limits<int>::max();
  const auto engine = machine.connect();
  const Array a = on(0, {1});
  const Array b = on(1, {2});
  check_contains(error_of(engine->all_reduce(sum_of({{a}, {b}}))), {"cuda:0", "30 ms"});
}

TEST_CASE("nccl: while devices connect, memory can be taken") {
  Machine machine(true);
  machine.nccl.polls_to_connect = 1 << 30;
  const auto engine = machine.connect();
  const auto task = engine->all_reduce(sum_of({{on(0, {1})}, {on(1, {2})}}));
  const auto spun = [](auto ready) {
    for (int i = 0; i < 300 && !ready(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return ready();
  };
  REQUIRE(spun([&] { return machine.nccl.count("ncclCommGetAsyncError") > 0; }));
  const bool taken = spun([&] {
    const std::unique_lock lock(cuda_runtime::launch_or_allocate(), std::try_to_lock);
    return lock.owns_lock();
  });
  CHECK(taken);
  CHECK_FALSE(task->finished());
  machine.nccl.let_connect();
  join_all(task);
  synchronize_all();
}

TEST_CASE("nccl: communicators that are well are finalized and destroyed, not aborted") {
  Machine machine(true);
  {
    const auto engine = machine.connect();
    const auto task = engine->all_reduce(sum_of({{on(0, {1})}, {on(1, {2})}}));
    join_all(task);
    synchronize_all();
    task->wait();
  }
  CHECK(machine.nccl.count("ncclCommFinalize") == 2);
  CHECK(machine.nccl.count("ncclCommDestroy") == 2);
  CHECK(machine.nccl.count("ncclCommAbort") == 0);
  CHECK(machine.nccl.alive() == 0);
}

TEST_CASE("nccl: communicators that cannot be finalized are aborted, those that take too long at the deadline") {
  Machine machine(true, std::chrono::milliseconds(100));
  {
    const auto engine = machine.connect();
    const auto task = engine->all_reduce(sum_of({{on(0, {1})}, {on(1, {2})}}));
    join_all(task);
    synchronize_all();
    task->wait();
    SUBCASE("refused") { machine.nccl.fail_call("ncclCommFinalize", 2, ncclSystemError); }
    SUBCASE("broken meanwhile") { machine.nccl.break_connections(ncclRemoteError); }
    SUBCASE("never done") { machine.nccl.polls_to_finish = 1 << 30; }
  }
  CHECK(machine.nccl.count("ncclCommDestroy") == 0);
  CHECK(machine.nccl.count("ncclCommAbort") == 2);
  CHECK(machine.nccl.alive() == 0);
}

TEST_CASE("nccl: a version that blocks is refused by its number") {
  Machine machine;
  machine.nccl.version = NCCL_VERSION(2, 16, 2);
  const auto engine = machine.connect();
  const Array a = on(0, {1});
  const Array b = on(1, {2});
  check_contains(error_of(engine->all_reduce(sum_of({{a}, {b}}))), {"2.16", "2.18"});
}
