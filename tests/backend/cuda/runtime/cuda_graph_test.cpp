// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/capture/capture.h>
#include <tutti/backend/error.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/random.h>
#include <tutti/tests/backend/cuda/operations/operation_cases.h>
#include <tutti/tests/backend/cuda/pool_of_pool.h>
#include <tutti/tests/backend/cuda/recording/recording_cuda.h>
#include <tutti/tests/backend/cuda/renewed_backend.h>

#include <doctest/doctest.h>

#include <cstdlib>
#include <thread>
#include <vector>

namespace tutti::testing {
namespace {

constexpr Device kDevice = kCaseDevice;

Array ones() { return Array::full({2, 2}, 1, DType::f32, kDevice); }

/// Kernels that run, in order, by what they are part of.
struct RunningKernels {
  explicit RunningKernels(RecordingCuda& machine) {
    for (const auto& [kernel, name] :
         {std::pair("Constant", "fill"), std::pair("draw_elements", "random"), std::pair("drop_elements", "dropout")})
      machine.on_kernel(kernel, [this, name](const KernelLaunch&) { return [this, name] { ran.emplace_back(name); }; });
  }
  std::vector<std::string> ran;
};

using Names = std::vector<std::string>;

/// What a step may do: kernels, random numbers, a call of a library, and a product, which takes temporary memory.
void step(Generator& random) {
  ones();
  (void)random.uniform({8}, DType::f32, kDevice);
  (void)dropout(ones(), 0.5, 2, random);
  (void)fourier({FourierTransform::Kind::complex, true, 2}, ones());
  for (int i = 0; i < 3; ++i) ones();
  (void)matmul(ones(), ones());
}

TEST_CASE("cuda graph: a captured step is replayed as graphs, parted by calls of libraries") {
  RecordingCuda machine({.deferred = true});
  RunningKernels kernels(machine);
  const RenewedBackend backend;
  Generator random(3);
  Capture capture(kDevice);
  {
    const CaptureScope scope(capture);
    step(random);
  }
  capture.draws().end();
  synchronize(kDevice);
  const Names once = std::exchange(kernels.ran, {});
  CHECK(once == Names{"fill", "random", "fill", "dropout", "fill", "fill", "fill", "fill", "fill", "fill"});
  for (int replay = 0; replay < 3; ++replay) {
    kernels.ran.clear();
    const std::size_t graphs = machine.count("cudaGraphLaunch");
    const std::size_t launched = machine.kernels().size();
    capture.begin_replay();
    capture.run(0, capture.tape().size());
    CHECK(kernels.ran.empty());  // nothing runs as it is recorded
    synchronize(kDevice);
    CHECK(kernels.ran == once);
    CHECK(machine.count("cudaGraphLaunch") == graphs + 2);
    if (replay > 0) CHECK(machine.kernels().size() == launched);
  }
  CHECK(capture.graphs() == 2);
  CHECK(machine.count("cudaGraphInstantiate") == 2);
}

TEST_CASE("cuda graph: segments are graphs of their own; short ones and those that are not to be are calls") {
  RecordingCuda machine({.deferred = true});
  RunningKernels kernels(machine);
  const RenewedBackend backend;
  Capture capture(kDevice);
  {
    const CaptureScope scope(capture);
    for (int i = 0; i < 8; ++i) ones();
  }
  synchronize(kDevice);
  kernels.ran.clear();
  std::size_t expected = 0;
  SUBCASE("segments") { expected = 2; }
  SUBCASE("not wanted") { capture.use_graphs(false); }
  capture.run(0, 2);
  CHECK(capture.graphs() == 0);
  capture.run(2, 5);
  capture.run(5, 8);
  CHECK(capture.graphs() == expected);
  synchronize(kDevice);
  CHECK(kernels.ran.size() == 8);
}

TEST_CASE("cuda graph: its temporary memory is nobody else's") {
  const RecordingCuda machine({.deferred = true});
  const RenewedBackend backend;
  const Array x = Array::full({64, 4096}, 1, DType::f32, kDevice);
  Capture capture(kDevice);
  {
    const CaptureScope scope(capture);
    for (int i = 0; i < 3; ++i) arg_sort(x, 1, false);
  }
  const std::size_t held = capture.memory_bytes();
  capture.run(0, 3);
  synchronize(kDevice);
  CHECK(capture.graphs() == 1);
  CHECK(capture.memory_bytes() > held);
  backend->pool(kDevice).trim();
  capture.run(0, 3);
  CHECK_NOTHROW(synchronize(kDevice));
}

TEST_CASE("cuda graph: a failure names the device and the way round, and leaves nothing behind") {
  std::size_t calls = 0;
  const auto replay = [](RecordingCuda& machine, std::size_t failing) {
    const RenewedBackend backend;
    Capture capture(kDevice);
    {
      const CaptureScope scope(capture);
      for (int i = 0; i < 3; ++i) (void)matmul(ones(), ones());
    }
    synchronize(kDevice);
    const std::size_t before = machine.count();
    if (failing > 0) machine.fail_call("*", failing, cudaErrorStreamCaptureUnsupported);
    try {
      capture.run(0, 9);
    } catch (const CaptureError& error) {
      const std::string text = error.what();
      CAPTURE(text);
      CHECK(text.find("cuda:1") != std::string::npos);
      CHECK(text.find("CapturedStepOptions::device_graphs = false") != std::string::npos);
    } catch (const DeviceError& error) {  // of the launch
      CHECK(std::string(error.what()).find("cuda:1") != std::string::npos);
    }
    const std::size_t after = machine.count();
    capture.use_graphs(false);
    CHECK_NOTHROW(capture.run(0, 9));
    CHECK_NOTHROW(synchronize(kDevice));
    return after - before;
  };
  {
    RecordingCuda machine;
    calls = replay(machine, 0);
  }
  REQUIRE(calls > 10);
  for (std::size_t nth = 1; nth <= calls; ++nth) {
    CAPTURE(nth);
    RecordingCuda machine({.deferred = true});
    replay(machine, nth);
  }
}

TEST_CASE("cuda graph: what is no fault of the graph is told as what it is") {
  RecordingCuda machine({.deferred = true});
  const RenewedBackend backend;
  const Array x = Array::full({64, 4096}, 1, DType::f32, kDevice);
  Capture capture(kDevice);
  {
    const CaptureScope scope(capture);
    for (int i = 0; i < 3; ++i) (void)arg_sort(x, 1, false);
  }
  synchronize(kDevice);
  SUBCASE("a device that failed before") {
    machine.fail_work("Constant", cudaErrorIllegalAddress, true);
    ones();
    CHECK_THROWS_AS(synchronize(kDevice), DeviceError);
    CHECK_THROWS_AS(capture.run(0, capture.tape().size()), DeviceError);
  }
  SUBCASE("no memory") {
    SUBCASE("for what is temporary") { backend->pool(kDevice).set_limit(1); }
    SUBCASE("for the graph") { machine.fail_call("cudaGraphInstantiate", 1, cudaErrorMemoryAllocation); }
    SUBCASE("for the graph on the device") { machine.fail_call("cudaGraphUpload", 1, cudaErrorMemoryAllocation); }
    try {
      capture.run(0, capture.tape().size());
      FAIL("made without memory");
    } catch (const OutOfMemoryError& error) {
      const std::string text = error.what();
      CAPTURE(text);
      CHECK(text.find("CapturedStepOptions::device_graphs = false") != std::string::npos);
    }
  }
}

TEST_CASE("cuda graph: with TUTTI_CUDA_SYNC=1 there are none") {
  const RecordingCuda machine;
  setenv("TUTTI_CUDA_SYNC", "1", 1);
  const RenewedBackend backend;
  Capture capture(kDevice);
  unsetenv("TUTTI_CUDA_SYNC");
  {
    const CaptureScope scope(capture);
    for (int i = 0; i < 3; ++i) ones();
  }
  CHECK_NOTHROW(capture.run(0, 3));
  CHECK(capture.graphs() == 0);
}

TEST_CASE("cuda graph: each operation can be recorded as one, and is queued by each launch of it alone") {
  for (const OperationCase& each : operations_for_graphs()) {
    CAPTURE(std::string(each.name));
    RecordingCuda machine({.deferred = true});
    const RenewedBackend backend;
    PoolOfPool scratch(kDevice, backend->pool(kDevice));
    each.run();
    synchronize(kDevice);
    cudaStream_t compute = backend->stream(kDevice).handle();
    const std::size_t outside = backend->pool(kDevice).statistics().in_use;
    const auto graph = backend->make_graph(kDevice, scratch.pool, each.run);
    REQUIRE(graph != nullptr);
    synchronize(kDevice);  // indices are copied from the host: no part of it
    const std::size_t launched = machine.kernels().size();
    graph->launch();
    CHECK(machine.queued(compute) > 0);
    CHECK_NOTHROW(synchronize(kDevice));
    graph->launch();
    CHECK_NOTHROW(synchronize(kDevice));
    CHECK(machine.kernels().size() == launched);
    CHECK(scratch.pool.statistics().in_use == 0);
    CHECK(backend->pool(kDevice).statistics().in_use == outside + scratch.pool.statistics().reserved);
  }
}

// CUDA allows nobody to wait for the whole device meanwhile.
TEST_CASE("cuda graph: while one is recorded, others and its own thread give memory back") {
  const RecordingCuda machine({.deferred = true});
  const RenewedBackend backend;
  PoolOfPool scratch(kDevice, backend->pool(kDevice));
  MemoryPool& pool = backend->pool(kDevice);
  const auto graph = backend->make_graph(kDevice, scratch.pool, [&] {
    for (int i = 0; i < 3; ++i) ones();
    std::thread([&] {
      ones();  // to the cache, while the fill is queued
      CHECK(pool.statistics().reserved > pool.statistics().in_use);
      pool.trim();
    }).join();
    pool.trim();
    CHECK(pool.statistics().reserved == pool.statistics().in_use);
  });
  graph->launch();
  CHECK_NOTHROW(synchronize(kDevice));
}

}  // namespace
}  // namespace tutti::testing
