// SPDX-License-Identifier: Apache-2.0
// Every call of the CUDA runtime that the engine makes fails once, in turn: nothing hangs, leaks or is used after it
// was given back, and the next reduction works.
#include <tutti/backend/error.h>
#include <tutti/tests/distributed/engines/peer/peer_machine.h>

#include <doctest/doctest.h>

#include <exception>

using namespace tutti;
using namespace tutti::testing;

namespace {

using Values = std::vector<float>;

/// A sum with a silent device, and a collective with a copy, zeros and a sum.
void scenario(PeerMachine& machine) {
  const auto engine = machine.connect();
  const std::size_t last = machine.devices.size() - 1;
  Tasks tasks;
  std::vector<AllReduceSlice> slices;
  for (const Device device : machine.devices) slices.push_back({array_on(device, Values(100, 2)), device != cuda(0)});
  tasks.push_back(engine->all_reduce(sum_of(slices, 2.0)));
  CollectiveRequest request{.inputs = {}, .outputs = {}, .ready = {}, .parts = {}};
  for (const Device device : machine.devices) {
    request.inputs.push_back(array_on(device, Values(30, 3)));
    request.outputs.push_back(Array::empty({30}, DType::f32, device));
    request.ready.push_back(compute_stream(device).record());
  }
  request.parts = {
      {10, {{0, 0}, {last, 5}}, {{0, 0}, {last, 0}}}, {10, {{0, 0}}, {{last, 10}}}, {10, {}, {{last, 20}}}};
  tasks.push_back(engine->collective(request));
  slices.clear();
  machine.join_all(tasks);
  const Values values = request.outputs[last].to_vector<float>();
  const bool right = values[0] == 6 && values[10] == 3 && values[20] == 0;
  CHECK(right);
  machine.synchronize_all();
  engine->crew().help(cuda(0));
  for (const auto& task : tasks)
    if (task->finished() && task->error()) std::rethrow_exception(task->error());
}

/// Whatever is not needed: it gives something back, asks, or is asked again.
bool may_be_ignored(const std::string& call, cudaError_t error) {
  const bool asks = call == "cudaEventQuery" || call == "cudaSetDevice" || call == "cudaGetDevice" ||
                    call == "cudaGetLastError" || call == "cudaStreamSynchronize";
  return asks || ((call == "cudaMalloc" || call == "cudaHostAlloc") && error == cudaErrorMemoryAllocation);
}

void each_call_fails_in_turn(int devices, int gpus, bool deferred) {
  std::size_t calls = 0;
  {
    PeerMachine machine(devices, gpus, deferred);
    scenario(machine);
    const std::size_t before = machine.machine.count();
    scenario(machine);
    calls = machine.machine.count() - before;
  }
  CHECK(calls > 60);
  for (std::size_t nth = 1; nth <= calls; ++nth) {
    CAPTURE(nth);
    PeerMachine machine(devices, gpus, deferred);
    scenario(machine);
    const std::size_t before = machine.machine.count();
    machine.machine.fail_call("*", nth, cudaErrorLaunchFailure);
    bool threw = false;
    try {
      scenario(machine);
    } catch (const Error&) {
      threw = true;
    }
    const std::string failed = machine.machine.calls()[before + nth - 1].name;
    CAPTURE(failed);
    CHECK((threw || may_be_ignored(failed, cudaErrorLaunchFailure)));
    CHECK_NOTHROW(scenario(machine));
  }
}

}  // namespace

TEST_CASE("peer failures: each call fails in turn, on one GPU") {
  each_call_fails_in_turn(2, 1, false);
  each_call_fails_in_turn(2, 1, true);
}

TEST_CASE("peer failures: each call fails in turn, on two GPUs") { each_call_fails_in_turn(2, 2, true); }

TEST_CASE("peer failures: a GPU that is lost ends all tasks with its error") {
  PeerMachine machine(2, 1, true);
  const auto engine = machine.connect();
  const Array a = array_on(cuda(0), Values{1});
  const Array b = array_on(cuda(1), Values{2});
  const Tasks tasks{engine->all_reduce(sum_of({{a}, {b}})), engine->all_reduce(sum_of({{a}, {b}}))};
  machine.join_all(tasks);  // nothing has run yet
  machine.machine.fail_work("combine_lanes", cudaErrorIllegalAddress, true);
  CHECK_THROWS_AS(a.to_vector<float>(), DeviceError);
  CHECK_THROWS_AS(engine->all_reduce(sum_of({{a}, {b}})), DeviceError);
  engine->crew().help(cuda(0));
  for (const auto& task : tasks) CHECK((!task->finished() || task->error()));
}

TEST_CASE("peer failures: what went wrong after a join is told to the next request, once") {
  PeerMachine machine(2, 1, true);
  const auto engine = machine.connect();
  const Array a = array_on(cuda(0), Values{1});
  const Array b = array_on(cuda(1), Values{2});
  const Tasks tasks{engine->all_reduce(sum_of({{a}, {b}}))};
  machine.join_all(tasks);
  machine.machine.fail_work("combine_lanes", cudaErrorIllegalAddress);
  machine.machine.fail_call("cudaEventRecord", 1, cudaErrorLaunchFailure);  // lets the engine look at its streams
  AllReduceRequest request{.slices = {{a}, {b}}, .ready = {}};
  CHECK_THROWS_AS(engine->all_reduce(request), DeviceError);
  CHECK(tasks[0]->finished());
  CHECK(tasks[0]->error());
  CHECK_THROWS_WITH_AS(join_tasks(cuda(0), tasks), doctest::Contains("illegal memory access"), DeviceError);
  CHECK_THROWS_WITH_AS(engine->all_reduce(request), doctest::Contains("illegal memory access"), DeviceError);
  machine.join_all({engine->all_reduce(sum_of({{a}, {b}}))});
  machine.synchronize_all();
}

TEST_CASE("peer failures: after a join that failed nothing uses the device's arrays any more") {
  PeerMachine machine(2, 1, true);
  const auto engine = machine.connect();
  const Array a = array_on(cuda(0), Values{1});
  const Array b = array_on(cuda(1), Values{2});
  const Tasks tasks{engine->all_reduce(sum_of({{a}, {b}}))};
  machine.machine.fail_call("cudaStreamWaitEvent", 1, cudaErrorLaunchFailure);
  CHECK_THROWS_AS(join_tasks(cuda(0), tasks), DeviceError);
  machine.machine.note_use(machine.backend->stream(cuda(0)).handle(), a.raw_data(), a.bytes(), true);
  synchronize(cuda(0));
}
