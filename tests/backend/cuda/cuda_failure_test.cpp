// SPDX-License-Identifier: Apache-2.0
// Every call of the CUDA runtime fails once, in turn: nothing hangs, leaks or is computed wrongly afterwards.
#include <tutti/backend/array.h>
#include <tutti/backend/cpu/runtime/cpu_event.h>
#include <tutti/backend/error.h>
#include <tutti/tests/backend/cuda/recording/recording_cuda.h>
#include <tutti/tests/backend/cuda/renewed_backend.h>

#include <doctest/doctest.h>

#include <numeric>
#include <string>
#include <vector>

namespace tutti::testing {
namespace {

std::vector<std::int32_t> counting(std::size_t count, std::int32_t first) {
  std::vector<std::int32_t> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

/// Two devices, all four streams, copies of more than one block each way, and from device to device.
void scenario(const RenewedBackend& backend) {
  constexpr std::size_t kCount = PinnedMemory::kBlock / sizeof(std::int32_t) + 1;
  const auto values = counting(kCount, 5);
  const Array first = Array::from(values, {kCount}, cuda(0));
  const Array second = Array::from(counting(100, 7), {100}, cuda(1));

  const auto done = std::make_shared<CpuEvent>();
  Stream& far = backend->communication_stream(cuda(1));
  far.wait(backend->compute_stream(cuda(0)).record());
  far.wait(backend->compute_stream(cuda(1)).record());
  done->complete();
  far.wait(Event(done));
  backend->compute_stream(cuda(1)).wait(far.record());
  far.record().synchronize();

  const auto read_first = first.to_vector<std::int32_t>();
  const auto read_second = second.to_vector<std::int32_t>();
  CHECK(read_first == values);
  CHECK(read_second == counting(100, 7));
  const Array third = second.to(cuda(0));
  const auto read_third = third.to_vector<std::int32_t>();
  CHECK(read_third == counting(100, 7));
  backend->communication_stream(cuda(0)).synchronize();
  backend->pool(cuda(0)).trim();
}

std::size_t calls_of_scenario(bool deferred) {
  const RecordingCuda machine({.deferred = deferred});
  const RenewedBackend backend;
  const std::size_t before = machine.count();
  scenario(backend);
  return machine.count() - before;
}

struct Outcome {
  bool threw = false;
  std::string failed;  // the call
};

/// Errors of the right type, naming operation and device; then everything works again.
Outcome scenario_with_failure(std::size_t nth, cudaError_t error, bool deferred) {
  RecordingCuda machine({.deferred = deferred});
  const RenewedBackend backend;
  const std::size_t before = machine.count();
  machine.fail_call("*", nth, error);
  Outcome outcome;
  try {
    scenario(backend);
  } catch (const Error& thrown) {
    outcome.threw = true;
    const std::string text = thrown.what();
    CAPTURE(text);
    CHECK((dynamic_cast<const DeviceError*>(&thrown) != nullptr ||
           (error == cudaErrorMemoryAllocation && dynamic_cast<const OutOfMemoryError*>(&thrown) != nullptr)));
    CHECK(text.front() == '[');
    CHECK(text.find("] cuda:") != std::string::npos);
  }
  REQUIRE(machine.failed());
  const auto calls = machine.calls();
  std::size_t index = before + nth - 1;
  if (calls[index].name == "cudaGetLastError" && calls[index - 1].name == "cudaEventQuery") --index;  // one question
  outcome.failed = calls[index].name;
  CAPTURE(outcome.failed);
  CHECK_NOTHROW(scenario(backend));
  return outcome;
}

/// Calls whose failure changes nothing: they give something back, or there is another way.
bool may_be_ignored(const std::string& call, cudaError_t error) {
  const bool releases = call == "cudaFree" || call == "cudaFreeHost" || call == "cudaEventDestroy" ||
                        call == "cudaDeviceSynchronize" || call == "cudaSetDevice" || call == "cudaGetDevice" ||
                        call == "cudaEventQuery";
  return releases || ((call == "cudaMalloc" || call == "cudaHostAlloc") && error == cudaErrorMemoryAllocation);
}

TEST_CASE("cuda failures: each call fails in turn") {
  for (const bool deferred : {false, true}) {
    const std::size_t calls = calls_of_scenario(deferred);
    CHECK(calls > 100);
    for (const cudaError_t error : {cudaErrorMemoryAllocation, cudaErrorLaunchFailure})
      for (std::size_t nth = 1; nth <= calls; ++nth) {
        CAPTURE(deferred);
        CAPTURE(nth);
        const Outcome outcome = scenario_with_failure(nth, error, deferred);
        CAPTURE(outcome.failed);
        CHECK((outcome.threw || may_be_ignored(outcome.failed, error)));
      }
  }
}

TEST_CASE("cuda failures: each piece of work goes wrong in turn") {
  for (int nth = 0; nth < 4; ++nth) {
    CAPTURE(nth);
    RecordingCuda machine({.deferred = true});
    const RenewedBackend backend;
    const Array array = Array::from(counting(100, 1), {100}, cuda(1));
    for (int i = 0; i < nth; ++i) CHECK(array.to_vector<std::int32_t>() == counting(100, 1));
    machine.fail_work("cudaMemcpyAsync", cudaErrorIllegalAddress);
    CHECK_THROWS_WITH_AS(array.to_vector<std::int32_t>(),
                         doctest::Contains("cuda:1: an illegal memory access was encountered"), DeviceError);
    CHECK_NOTHROW(scenario(backend));
  }
}

}  // namespace
}  // namespace tutti::testing
