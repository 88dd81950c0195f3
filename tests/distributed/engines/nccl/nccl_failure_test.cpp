// SPDX-License-Identifier: Apache-2.0
// Devices that go on without others, by NCCL's engine without a GPU: what NCCL is asked for, and what is left of it.
#include <tutti/backend/error.h>
#include <tutti/tests/distributed/engines/nccl/nccl_machine.h>
#include <tutti/tests/distributed/given_gradients.h>

#include <doctest/doctest.h>

#include <chrono>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

using namespace tutti;
using namespace tutti::testing;

namespace {

const std::vector<Device> kSurvivors{cuda(0), cuda(2)};

/// Of reductions that are launched on a machine where nothing runs by itself, when NCCL notices a failure. Returns when
/// `ending` has been called for each device, which comes after the devices are told.
void check_fails_in_flight(NcclMachine& machine, NcclCommunicator& engine, std::string_view ending = "ncclCommRevoke") {
  const std::vector<AllReduceSlice> slices = slices_on(machine.devices);
  const auto task = engine.all_reduce(sum_of(slices));
  machine.join_all(task);
  machine.nccl.break_connections(ncclRemoteError);
  task->wait();
  CHECK_THROWS_WITH_AS(join_tasks(cuda(0), std::vector{task}), doctest::Contains("remote process failed"), SyncError);
  CHECK_THROWS_AS(engine.all_reduce(sum_of(slices)), SyncError);  // tells those who had joined
  for (int i = 0; i < 5000 && machine.nccl.count(ending) < machine.devices.size(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

TEST_CASE("nccl failures: a group that is well shrinks to those that go on, once its work is done") {
  for (const bool deferred : {false, true}) {
    NcclMachine machine(3, deferred);
    const auto engine = machine.connect();
    check_works(*engine, machine.devices);
    const auto last = engine->all_reduce(sum_of(slices_on(machine.devices)));
    machine.join_all(last);
    engine->regroup(members_of(kSurvivors));
    const auto next = engine->all_reduce(sum_of(slices_on(kSurvivors)));
    machine.synchronize_all();
    for (const Device device : kSurvivors) join_tasks(device, std::vector{next});
    CHECK(!last->error());
    check_works(*engine, kSurvivors);
    CHECK(machine.nccl.count("ncclCommShrink") == 2);
    CHECK(machine.nccl.count("ncclCommShrink with NCCL_SHRINK_ABORT") == 0);
    CHECK(machine.nccl.count("ncclCommInitRankConfig") == 3);
    CHECK(machine.nccl.alive() == 2);
    engine->regroup(members_of(machine.devices));  // larger again: that is a new connection
    check_works(*engine, machine.devices);
    CHECK(machine.nccl.count("ncclCommInitRankConfig") == 6);
  }
}

TEST_CASE("nccl failures: what runs is revoked, and survivors shrink the rest") {
  NcclMachine machine(3, true);
  const auto engine = machine.connect();
  check_fails_in_flight(machine, *engine);
  CHECK(machine.nccl.count("ncclCommRevoke") == 3);
  CHECK(machine.nccl.alive() == 3);
  engine->regroup(members_of(kSurvivors));
  check_works(*engine, kSurvivors);
  CHECK(machine.nccl.count("ncclCommShrink with NCCL_SHRINK_ABORT") == 2);
  CHECK(machine.nccl.count("ncclCommInitRankConfig") == 3);
  CHECK(machine.nccl.alive() == 2);
}

TEST_CASE("nccl failures: where all go on they connect anew") {
  NcclMachine machine(3, true);
  const auto engine = machine.connect();
  check_fails_in_flight(machine, *engine);
  engine->regroup(members_of(machine.devices));
  check_works(*engine, machine.devices);
  CHECK(machine.nccl.count("ncclCommShrink") == 0);
  CHECK(machine.nccl.count("ncclCommInitRankConfig") == 6);
  CHECK(machine.nccl.alive() == 3);
}

TEST_CASE("nccl failures: a version without revocation or shrinking connects survivors anew, and is named") {
  for (const int version : {NCCL_VERSION(2, 26, 5), NCCL_VERSION(2, 27, 5)}) {
    NcclMachine machine(3, true);
    machine.nccl.version = version;
    const auto engine = machine.connect();
    check_fails_in_flight(machine, *engine, "ncclCommAbort");
    CHECK(machine.nccl.alive() == 0);
    engine->regroup(members_of(kSurvivors));
    machine.nccl.fail_call("ncclCommInitRankConfig", 1, ncclSystemError);
    CHECK_THROWS_WITH_AS(
        check_works(*engine, kSurvivors),
        doctest::Contains(version == NCCL_VERSION(2, 26, 5)
                              ? "as NCCL 2.26.5 lacks ncclCommShrink (2.27.3) and ncclCommRevoke (2.28.7)"
                              : "as NCCL 2.27.5 lacks ncclCommRevoke (2.28.7)"),
        SyncError);
    check_works(*engine, kSurvivors);
    CHECK(machine.nccl.count("ncclCommRevoke") == 0);
    CHECK(machine.nccl.count("ncclCommShrink") == 0);
    CHECK(machine.nccl.alive() == 2);
  }
}

TEST_CASE("nccl failures: a GPU that is lost is not needed any more") {
  NcclMachine machine(3);
  const auto engine = machine.connect();
  check_works(*engine, machine.devices);
  machine.cuda_machine.fail_work("combine_", cudaErrorIllegalAddress, true);
  AllReduceRequest request = sum_of(slices_on(machine.devices));
  request.wire = GradientWire::f16;
  const auto task = engine->all_reduce(request);
  task->wait();
  CHECK(task->error());
  request = {};
  std::vector<Device> others;
  for (const Device device : machine.devices) try {
      synchronize(device);
      others.push_back(device);
    } catch (const DeviceError&) {
    }
  REQUIRE(others.size() == 2);
  engine->regroup(members_of(others));
  check_works(*engine, others);
  CHECK(machine.nccl.count("ncclCommShrink") == 2);
  CHECK(machine.nccl.alive() == 2);
}

namespace {

/// A reduction, a failure, and what the survivors do: whatever goes wrong is an error.
void go_through_failure(NcclMachine& machine, NcclCommunicator& engine) {
  const auto attempt = [](auto&& work) {
    try {
      work();
    } catch (const SyncError&) {
    }
  };
  attempt([&] {  // what it leaves is undefined if it fails once it is joined
    machine.join_all(engine.all_reduce(sum_of(slices_on(machine.devices))));
    machine.synchronize_all();
  });
  attempt([&] {
    const auto task = engine.all_reduce(sum_of(slices_on(machine.devices)));
    machine.join_all(task);
    machine.nccl.break_connections(ncclRemoteError);
    task->wait();
  });
  engine.regroup(members_of(kSurvivors));
  for (int i = 0; i < 2; ++i)
    attempt([&] {
      const auto task = engine.all_reduce(sum_of(slices_on(kSurvivors)));
      for (const Device device : kSurvivors) join_tasks(device, std::vector{task});
      for (const Device device : kSurvivors) synchronize(device);
      task->wait();
    });
}

}  // namespace

TEST_CASE("nccl failures: each of its calls fails in turn while survivors go on: nothing hangs or is left") {
  for (const std::string call :
       {"ncclGetVersion", "ncclGetUniqueId", "ncclGroupStart", "ncclGroupEnd", "ncclCommInitRankConfig",
        "ncclCommGetAsyncError", "ncclAllReduce", "ncclCommRevoke", "ncclCommShrink"}) {
    std::size_t nth = 0;
    bool failed = true;
    while (failed && nth < 60) {
      ++nth;
      CAPTURE(call);
      CAPTURE(nth);
      NcclMachine machine(3, true);
      const auto engine = machine.connect();
      machine.nccl.fail_call(call, nth, ncclSystemError);
      go_through_failure(machine, *engine);
      failed = machine.nccl.failed();
      machine.nccl.fail_call("", 0, ncclSuccess);
      try {
        check_works(*engine, kSurvivors);
      } catch (const SyncError&) {  // of what had been joined before
        check_works(*engine, kSurvivors);
      }
      CHECK(machine.nccl.alive() == 2);
    }
    CHECK(nth >= 2);
  }
}

namespace {

/// A sum that travels in 16 bits, a sparse one, and one of the users' own, of three devices.
void reduce_all_ways(NcclMachine& machine, NcclCommunicator& engine) {
  AllReduceRequest wire = sum_of(slices_on(machine.devices));
  wire.wire = GradientWire::bf16;
  SparseReduction sparse;
  sparse.parameter = {.name = "table", .shape = {10, 1}, .dtype = DType::f32, .sparse = true};
  sparse.receivers = machine.devices;
  sparse.denominator = 2.0;
  sparse.result = std::make_shared<SparseResult>();
  sparse.result->receives = {true, true, false};
  sparse.result->gradients.resize(3);
  CollectiveRequest own{.operation = CollectiveOperation::max, .inputs = {}, .outputs = {}, .ready = {}, .parts = {}};
  for (const Device device : machine.devices) {
    const SparseGradient part{Array::from(std::vector<std::int64_t>{4}, {1}, device),
                              Array::from(std::vector<float>{2}, {1, 1}, device),
                              {10, 1}};
    sparse.contributions.push_back({device, sparse.contributions.size(), {part}});
    own.inputs.push_back(Array::from(std::vector<float>{1, 2}, {2}, device));
    own.outputs.push_back(Array::empty({2}, DType::f32, device));
    for (auto* ready : {&sparse.ready, &own.ready}) ready->push_back(compute_stream(device).record());
  }
  own.parts = {{2, {{0, 0}, {2, 0}}, {{0, 0}, {1, 0}}}, {1, {}, {{2, 0}}}};
  const std::vector<std::shared_ptr<CollectiveTask>> tasks{engine.all_reduce(wire), engine.reduce_sparse(sparse),
                                                           engine.collective(own)};
  std::exception_ptr error;
  for (const auto& task : tasks) try {
      machine.join_all(task);
    } catch (...) {
      error = std::current_exception();
    }
  for (const auto& task : tasks) task->wait();
  if (error) std::rethrow_exception(error);
}

}  // namespace

TEST_CASE("nccl failures: each call of CUDA's fails in turn: nothing hangs, leaks or goes on using what was let go") {
  std::size_t nth = 0;
  for (bool failed = true; failed; nth += 3) {
    CAPTURE(nth);
    NcclMachine machine(3);
    {
      const auto engine = machine.connect();
      reduce_all_ways(machine, *engine);
      machine.synchronize_all();
      machine.cuda_machine.fail_call("*", nth + 1, cudaErrorLaunchFailure);
      try {
        reduce_all_ways(machine, *engine);
      } catch (const Error&) {
      }
      failed = machine.cuda_machine.failed();
      for (int attempts = 0; attempts < 2; ++attempts) try {
          reduce_all_ways(machine, *engine);
          check_works(*engine, machine.devices);
          break;
        } catch (const Error&) {  // of what had been joined before
          CHECK(attempts == 0);
        }
    }
    CHECK(machine.nccl.alive() == 0);
    for (const std::string& fault : machine.cuda_machine.take_faults())  // NCCL cannot forget a group that has begun
      CHECK_MESSAGE(fault.find("in its group") != std::string::npos, fault);
    if (nth > 2000) break;
  }
  CHECK(nth > 100);
}

TEST_CASE("nccl failures: a device that fails leaves, and the others train on to what CPU devices get") {
  const SyncOptions options{
      .wire = GradientWire::bf16, .fail_after = std::chrono::seconds(20), .warn = [](const std::string&) {}};
  const auto train = [&](const std::vector<Device>& devices) {
    GradientSync sync(devices, options);
    auto replicas = sync.replicate(GivenModel());
    const auto errors = errors_of_devices(3, [&](std::size_t d) {
      auto step = sync.step(devices[d], 1.0);
      step.backward(given_loss(used(replicas[d], 0, d), 0, d));
      step.join();
      auto second = sync.step(devices[d], 1.0);
      if (d == 1) throw std::runtime_error("the data has ended badly");
      replicas[d].zero_grad();
      second.backward(given_loss(used(replicas[d], 1, d), 1, d));
      second.join();
    });
    for (const std::string& error : errors) CHECK(!error.empty());
    GivenResults results(3);
    run_devices(3, [&](std::size_t d) {
      if (d == 1) return sync.leave(devices[d]);
      sync.rejoin(devices[d], 1);
      results[d] = take_given_steps(sync, replicas[d], devices[d], d);
      sync.leave(devices[d]);
      synchronize(devices[d]);
    });
    return results;
  };
  const GivenResults expected = train(test_devices(3));
  {
    const NcclMachine machine(3);
    CHECK(train(machine.devices) == expected);
    CHECK(machine.nccl.count("ncclCommShrink") == 2);
    CHECK(machine.nccl.count("ncclCommInitRankConfig") == 3);
    CHECK(machine.nccl.alive() == 0);
  }
}
