// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/array.h>
#include <tutti/backend/cuda/runtime/cuda_check.h>
#include <tutti/backend/error.h>
#include <tutti/backend/linear_algebra/linear_algebra.h>
#include <tutti/backend/operations.h>
#include <tutti/tests/backend/cuda/recording/recording_cuda.h>
#include <tutti/tests/backend/cuda/renewed_backend.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

namespace tutti::testing {
namespace {

constexpr std::size_t kBlock = PinnedMemory::kBlock;

template <class T> std::vector<T> counting(std::size_t count, T first = 1) {
  std::vector<T> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

Array bytes_on(Device device, std::size_t bytes) {
  return Array::empty({static_cast<std::int64_t>(bytes)}, DType::boolean, device);
}

TEST_CASE("cuda backend: without a driver there is an error that says so, and where it was looked for") {
  RecordingCuda machine({.driver = false});
  machine.fail_call("cudaGetDeviceCount", 1, cudaErrorInsufficientDriver);
  CHECK_THROWS_WITH_AS(
      CudaBackend(),
      "[device] cuda:0: CUDA cannot be used here: there is no driver on this machine (libcuda.so.1 was "
      "looked for where the system's loader looks: LD_LIBRARY_PATH, and the folders of ldconfig)",
      DeviceError);
}

TEST_CASE("cuda backend: a driver that is too old is an error") {
  RecordingCuda machine;
  machine.fail_call("cudaGetDeviceCount", 1, cudaErrorInsufficientDriver);
  CHECK_THROWS_WITH_AS(CudaBackend(),
                       "[device] cuda:0: CUDA cannot be used here: CUDA driver version is insufficient for CUDA "
                       "runtime version (cudaErrorInsufficientDriver)",
                       DeviceError);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("cuda backend: without a device, asking for one is an error") {
  const RecordingCuda machine({.devices = 0});
  CudaBackend backend;
  CHECK_THROWS_WITH_AS(backend.check(cuda(1)), "[device] cuda:1: this machine has no CUDA device", DeviceError);
  CHECK_THROWS_AS(backend.pool(cuda(0)), DeviceError);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("cuda backend: devices are counted, and nothing is made before it is used") {
  const RecordingCuda machine;
  CudaBackend backend;
  backend.check(cuda(1));
  CHECK_THROWS_WITH_AS(backend.check(cuda(2)), "[device] cuda:2: this machine has 2 CUDA devices, from cuda:0 on",
                       DeviceError);
  CHECK_THROWS_AS(backend.compute_stream(cuda(2)), DeviceError);
  CHECK_THROWS_AS(backend.compute_stream(cuda(64)), DeviceError);
  CHECK(machine.alive("stream") == 0);
  CHECK(machine.priority(backend.stream(cuda(1)).handle()) == 0);
  CHECK(machine.priority(static_cast<CudaStream&>(backend.communication_stream(cuda(1))).handle()) < 0);
  CHECK(&backend.stream(cuda(1)) == &backend.compute_stream(cuda(1)));
  CHECK(machine.alive("stream") == 2);
}

TEST_CASE("cuda backend: copies to and from the host, of any size") {
  bool deferred = false;
  SUBCASE("run at once") {}
  SUBCASE("deferred") { deferred = true; }
  const RecordingCuda machine({.deferred = deferred});
  const RenewedBackend backend;
  backend->stream(cuda(1));
  const std::size_t before = machine.alive("pinned memory");
  constexpr std::size_t kInBlock = kBlock / sizeof(std::int32_t);
  for (const std::size_t count :
       {std::size_t{1}, std::size_t{1000}, kInBlock - 1, kInBlock, kInBlock + 1, 2 * kInBlock, 9 * kInBlock + 3}) {
    CAPTURE(count);
    auto values = counting<std::int32_t>(count);
    const auto length = static_cast<std::int64_t>(count);
    const Array array = Array::from(values, {length}, cuda(1));
    const auto expected = values;
    std::ranges::fill(values, -1);  // it may be used again
    CHECK(array.to_vector<std::int32_t>() == expected);
    const auto last = array.slice(0, length - 1, length).to_vector<std::int32_t>();
    CHECK(last == std::vector<std::int32_t>{expected.back()});
  }
  CHECK(Array::from(std::vector<float>{}, {0}, cuda(1)).to_vector<float>().empty());
  CHECK(machine.alive("pinned memory") <= before + 8);
}

TEST_CASE("cuda backend: arrays go from one device to the other") {
  const RecordingCuda machine({.deferred = true});
  const RenewedBackend backend;
  const auto values = counting<double>(1000);
  const Array there = Array::from(values, {1000}, cuda(0)).to(cuda(1));
  CHECK(there.device() == cuda(1));
  CHECK(there.to(cpu()).to_vector<double>() == values);
}

TEST_CASE("cuda backend: with TUTTI_POOL=off memory is given back at once, behind what uses it") {
  setenv("TUTTI_POOL", "off", 1);
  struct Restored {
    ~Restored() { unsetenv("TUTTI_POOL"); }
  } restored;
  const RecordingCuda machine({.deferred = true});
  const RenewedBackend backend;
  backend->stream(cuda(0));
  const std::size_t before = machine.alive("device memory");
  Array array = Array::from(std::vector<float>(25, 1), {25}, cuda(0));
  CHECK(memory_pool(cuda(0)).statistics().in_use == 100);
  CHECK(machine.alive("device memory") == before + 1);
  CHECK(machine.queued(backend->stream(cuda(0)).handle()) > 0);
  array = Array();  // a block that goes too early is a fault of the machine
  CHECK(machine.alive("device memory") == before);
  CHECK(memory_pool(cuda(0)).statistics().reserved == 0);
}

TEST_CASE("cuda backend: a literal is written once, and as long as it is one of the last") {
  const RecordingCuda machine;
  const RenewedBackend backend;
  const auto fills = [&] {
    const std::vector<std::string> kernels = machine.kernels();
    return std::ranges::count_if(kernels, [](auto& name) { return name.find("Constant") != std::string::npos; });
  };
  const Array half = backend->literal(0.5, DType::f32, cuda(0));
  CHECK(half.shape().empty());
  CHECK(backend->literal(0.5, DType::f32, cuda(0)).storage() == half.storage());
  CHECK(fills() == 1);
  CHECK(backend->literal(0.5, DType::f64, cuda(0)).dtype() == DType::f64);
  CHECK(backend->literal(-0.0, DType::f32, cuda(0)).storage() != backend->literal(0.0, DType::f32, cuda(0)).storage());
  CHECK(backend->literal(0.5, DType::f32, cuda(1)).device() == cuda(1));
  CHECK(fills() == 5);
  for (int i = 1; i <= 64; ++i) (void)backend->literal(i, DType::f32, cuda(0));
  CHECK(fills() == 69);
  CHECK(backend->literal(0.5, DType::f32, cuda(0)).storage() != half.storage());
}

TEST_CASE("cuda backend: threads copy at once, more of them than there are pinned blocks") {
  const RecordingCuda machine({.deferred = true});
  const RenewedBackend backend;
  std::vector<std::thread> threads;
  for (int t = 0; t < 10; ++t)
    threads.emplace_back([t] {
      const auto values = counting<std::int32_t>(kBlock / 2 + 100, t);
      const Array array = Array::from(values, {static_cast<std::int64_t>(values.size())}, cuda(0));
      for (int i = 0; i < 2; ++i) CHECK(array.to_vector<std::int32_t>() == values);
    });
  for (auto& thread : threads) thread.join();
}

TEST_CASE("cuda backend: handles of libraries are not made while a collective is launched on several devices") {
  RecordingCuda machine({.deferred = true});
  const RenewedBackend backend;
  const Array x = Array::full({2, 2}, 1, DType::f32, cuda(1));
  for (const Array& each : {x.copy(), x.copy(), x.copy(), x.copy()}) (void)each;  // the pool has memory for what comes
  synchronize(cuda(1));
  const auto waits = [&](const char* call, const std::function<void()>& work) {
    std::unique_lock launching(cuda_runtime::launch_or_allocate());
    std::thread other(work);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    CHECK(machine.count(call) == 0);
    launching.unlock();
    other.join();
    CHECK(machine.count(call) == 1);
  };
  waits("cusolverDnCreate", [&] { (void)factorize(Factorization::cholesky, x); });
  waits("cublasLtCreate", [&] { (void)matmul(x, x); });
  synchronize(cuda(1));
}

TEST_CASE("cuda backend: a copy that goes wrong on the device is named, and the next one works") {
  RecordingCuda machine({.deferred = true});
  const RenewedBackend backend;
  const auto values = counting<float>(100);
  const Array array = Array::from(values, {100}, cuda(0));
  machine.fail_work("cudaMemcpyAsync", cudaErrorIllegalAddress);
  CHECK_THROWS_WITH_AS(array.to_vector<float>(), doctest::Contains("synchronisation: copy_from_host, copy_to_host"),
                       DeviceError);
  CHECK(Array::from(values, {100}, cuda(0)).to_vector<float>() == values);
}

TEST_CASE("cuda backend: after a device is lost every operation says so, and all is given back") {
  RecordingCuda machine({.deferred = true});
  const RenewedBackend backend;
  const Array array = Array::from(counting<float>(100), {100}, cuda(0));
  machine.fail_work("cudaMemcpyAsync", cudaErrorIllegalAddress, true);
  CHECK_THROWS_AS(array.to_vector<float>(), DeviceError);
  CHECK_THROWS_AS(array.to_vector<float>(), DeviceError);
  CHECK_THROWS_AS(Array::from(counting<float>(10), {10}, cuda(0)), DeviceError);
  CHECK(Array::from(counting<float>(10), {10}, cuda(1)).to_vector<float>() == counting<float>(10));
}

TEST_CASE("cuda backend: the cache is given back before there is no memory") {
  RecordingCuda machine({.deferred = true, .memory = 4 * kBlock});
  const RenewedBackend backend;
  MemoryPool& pool = backend->pool(cuda(0));
  {
    const Array cached = Array::from(std::vector<bool>(3 * kBlock, true), {3 * kBlock}, cuda(0));  // still queued
  }
  const Array array = bytes_on(cuda(0), 4 * kBlock);
  CHECK(pool.statistics().reserved == 4 * kBlock);
  CHECK_THROWS_WITH_AS(
      bytes_on(cuda(0), 64),
      "[memory] cuda:0: no room for 64 B (64 bytes): 16.00 MiB in use, 16.00 MiB reserved, no limit set",
      OutOfMemoryError);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(bytes_on(cuda(1), 64).defined());  // it has memory of its own
}

TEST_CASE("cuda backend: an allocation that fails for another reason is no want of memory") {
  RecordingCuda machine;
  const RenewedBackend backend;
  backend->pool(cuda(0));
  machine.fail_call("cudaMalloc", 1, cudaErrorLaunchFailure);
  CHECK_THROWS_WITH_AS(bytes_on(cuda(0), 64), doctest::Contains("[memory] cuda:0: cudaMalloc failed"), DeviceError);
  CHECK(bytes_on(cuda(0), 64).defined());
}

/// Uses an array on the communication stream and lets go of it; the next array gets its memory.
void use_elsewhere(RecordingCuda& machine, const RenewedBackend& backend, bool wait) {
  Stream& communication = backend->communication_stream(cuda(0));
  {
    const Array array = Array::from(counting<float>(100), {100}, cuda(0));
    communication.wait(backend->compute_stream(cuda(0)).record());
    machine.note_use(static_cast<CudaStream&>(communication).handle(), array.raw_data(), array.bytes(), false);
    if (wait) backend->compute_stream(cuda(0)).wait(communication.record());
  }
  Array::from(counting<float>(100), {100}, cuda(0));
  communication.synchronize();
}

TEST_CASE("cuda backend: memory may be used on another stream if the compute stream waits before it is let go") {
  RecordingCuda machine({.deferred = true});
  const RenewedBackend backend;
  use_elsewhere(machine, backend, true);
  CHECK(machine.faults().empty());
  use_elsewhere(machine, backend, false);
  const auto found = machine.take_faults();
  REQUIRE(found.size() == 1);
  CHECK(found.front().find("cudaMemcpyAsync on stream 1 of cuda:0 writes bytes 0 to 400") == 0);
}

}  // namespace
}  // namespace tutti::testing
