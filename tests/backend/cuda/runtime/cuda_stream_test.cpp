// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/runtime/cpu_event.h>
#include <tutti/backend/cuda/runtime/cuda_stream.h>
#include <tutti/backend/error.h>
#include <tutti/tests/backend/cuda/recording/recording_cuda.h>
#include <tutti/tests/backend/cuda/scale_kernel.h>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace tutti::testing {
namespace {

using Priority = CudaStream::Priority;

/// Pinned memory and one queued write of a byte to it.
class Cell {
 public:
  Cell() { cudaHostAlloc(reinterpret_cast<void**>(&byte_), 64, cudaHostAllocPortable); }
  ~Cell() { cudaFreeHost(byte_); }
  Cell(const Cell&) = delete;
  Cell& operator=(const Cell&) = delete;

  void set(CudaStream& stream, unsigned char value, std::string_view operation = "set") {
    stream.launch(operation, [&](cudaStream_t handle) {
      cudaMemcpyAsync(byte_, &value, 1, cudaMemcpyHostToHost, handle);  // the value is taken at once
    });
  }
  int value() const { return *byte_; }

 private:
  unsigned char* byte_ = nullptr;
};

/// An event of no CUDA device, that the test completes.
struct Gate {
  std::shared_ptr<CpuEvent> state = std::make_shared<CpuEvent>();
  Event event{state};
  void fail(const char* text) const { state->complete(std::make_exception_ptr(Error(text))); }
};

int current_device() {
  int device = -1;
  cudaGetDevice(&device);
  return device;
}

TEST_CASE("cuda stream: made on its device, with its priority, whatever device is current") {
  const RecordingCuda machine;
  cudaSetDevice(0);
  const CudaStream normal(cuda(1), Priority::normal);
  const CudaStream high(cuda(1), Priority::high);
  CHECK(normal.device() == cuda(1));
  CHECK(machine.priority(normal.handle()) == 0);
  CHECK(machine.priority(high.handle()) == -5);
  CHECK(current_device() == 0);
  CHECK_THROWS_WITH_AS(CudaStream(cuda(2), Priority::normal),
                       doctest::Contains("[stream] cuda:2: cudaSetDevice failed"), DeviceError);
}

TEST_CASE("cuda stream: work is queued with the device current") {
  RecordingCuda machine({.deferred = true});
  Cell cell;
  cudaSetDevice(0);
  CudaStream stream(cuda(1), Priority::normal);
  cell.set(stream, 7);
  CHECK(current_device() == 0);
  CHECK(machine.queued(stream.handle()) == 1);
  stream.synchronize();
  CHECK(cell.value() == 7);
}

TEST_CASE("cuda stream: wait orders streams of one device and of two") {
  RecordingCuda machine({.deferred = true});
  Cell cell;
  CudaStream first(cuda(0), Priority::normal);
  CudaStream second(cuda(0), Priority::high);
  CudaStream far(cuda(1), Priority::normal);
  cell.set(first, 1);
  second.wait(first.record());
  cell.set(second, 2);
  far.wait(second.record());
  cell.set(far, 3);
  CHECK(cell.value() != 1);  // nobody waited
  CHECK_FALSE(machine.advance(far.handle()));
  CHECK_FALSE(machine.advance(second.handle()));
  far.synchronize();
  CHECK(cell.value() == 3);
  CHECK(machine.queued(first.handle()) == 0);
}

TEST_CASE("cuda stream: without a wait the recorder complains, so the test above tests something") {
  RecordingCuda machine({.deferred = true});
  Cell cell;
  CudaStream first(cuda(0), Priority::normal);
  CudaStream second(cuda(0), Priority::high);
  cell.set(first, 1);
  cell.set(second, 2);
  CHECK(machine.take_faults().size() == 1);
  first.synchronize();
  second.synchronize();
}

TEST_CASE("cuda stream: an event that was never recorded cannot be waited for") {
  const RecordingCuda machine;
  CudaStream stream(cuda(1), Priority::normal);
  CHECK_THROWS_WITH_AS(stream.wait(Event()), "[stream] cuda:1 was told to wait for an event that was never recorded",
                       Error);
}

TEST_CASE("cuda stream: an event of another kind of device holds the stream, not the caller") {
  RecordingCuda machine({.deferred = true});
  Cell cell;
  CudaStream stream(cuda(0), Priority::normal);
  const Gate gate;
  stream.wait(gate.event);
  cell.set(stream, 5);
  const Event after = stream.record();
  std::thread other([&] { stream.synchronize(); });
  CHECK_FALSE(after.ready());
  CHECK(cell.value() != 5);
  gate.state->complete();
  other.join();
  CHECK(after.ready());
  CHECK(cell.value() == 5);
}

TEST_CASE("cuda stream: the error of such an event is thrown by the next synchronisation, once, the first of several") {
  const RecordingCuda machine({.deferred = true});
  CudaStream stream(cuda(0), Priority::normal);
  const Gate first;
  const Gate second;
  stream.wait(first.event);
  stream.wait(second.event);
  first.fail("the first");
  second.fail("the second");
  CHECK_THROWS_WITH_AS(stream.synchronize(), "the first", Error);
  stream.synchronize();
  CHECK_THROWS_WITH_AS(stream.wait(second.event), "the second", Error);  // known at once
  stream.synchronize();
}

TEST_CASE("cuda stream: the error of such an event is thrown to who waits for a later event of the stream, too") {
  const RecordingCuda machine({.deferred = true});
  CudaStream stream(cuda(0), Priority::normal);
  const Gate gate;
  stream.wait(gate.event);
  const Event later = stream.record();
  gate.fail("burnt");
  CHECK_THROWS_WITH_AS(later.synchronize(), "burnt", Error);
  later.synchronize();
  stream.synchronize();
}

TEST_CASE("cuda stream: streams that wait for events of another kind do not hold up each other's") {
  RecordingCuda machine({.deferred = true});
  Cell cells[3];
  std::vector<std::unique_ptr<CudaStream>> streams;
  for (int s = 0; s < 3; ++s)
    streams.push_back(std::make_unique<CudaStream>(cuda(s % 2 == 0 ? 0 : 1), Priority::normal));
  // Each comes to the end by what the next one has done, and the first stream's wait is there before the others'.
  std::vector<std::shared_ptr<Gate>> gates;
  for (std::size_t s = 0; s < 3; ++s) {
    gates.push_back(std::make_shared<Gate>());
    streams[s]->wait(gates.back()->event);
    cells[s].set(*streams[s], static_cast<unsigned char>(s + 1));
  }
  std::atomic<int> ended{0};
  std::vector<std::thread> threads;
  for (std::size_t s = 0; s < 3; ++s) {
    threads.emplace_back([&, s] {
      streams[s]->synchronize();
      ++ended;
      if (s > 0) gates[s - 1]->state->complete();
    });
    if (s < 2) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  gates[2]->state->complete();
  for (int i = 0; i < 500 && ended < 3; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(ended == 3);
  for (const auto& gate : gates)
    if (!gate->event.ready()) gate->state->complete();  // so that a test that fails ends
  for (auto& thread : threads) thread.join();
  for (int s = 0; s < 3; ++s) CHECK(cells[s].value() == s + 1);
  CHECK(machine.count("cudaLaunchHostFunc") == 0);
}

TEST_CASE("cuda stream: goes when all that it waits for is past, and leaves nothing") {
  const RecordingCuda machine({.deferred = true});
  const Gate gate;
  std::thread opener;
  {
    CudaStream stream(cuda(1), Priority::normal);
    stream.wait(gate.event);
    opener = std::thread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      gate.state->complete();
    });
  }
  CHECK(gate.event.ready());
  opener.join();
  CHECK(machine.alive("pinned memory") == 0);
}

TEST_CASE("cuda stream: for a device that cannot wait for memory, the caller waits") {
  RecordingCuda machine({.deferred = true});
  CudaStream stream(cuda(0), Priority::normal);
  const Gate gate;
  machine.fail_call("cuStreamWaitValue32", 1, cudaErrorNotSupported);
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    gate.fail("burnt");
  });
  CHECK_THROWS_WITH_AS(stream.wait(gate.event), "burnt", Error);
  opener.join();
  CHECK(machine.count("cudaLaunchHostFunc") == 0);
}

TEST_CASE("cuda stream: a wait that the driver refuses is an error that names it") {
  RecordingCuda machine({.deferred = true});
  CudaStream stream(cuda(0), Priority::normal);
  const Gate gate;
  machine.fail_call("cuStreamWaitValue32", 1, cudaErrorUnknown);
  CHECK_THROWS_WITH_AS(stream.wait(gate.event), doctest::Contains("[wait] cuda:0: cuStreamWaitValue32 failed"),
                       DeviceError);
  gate.state->complete();
}

TEST_CASE("cuda stream: events are used again") {
  const RecordingCuda machine;
  {
    CudaStream stream(cuda(1), Priority::normal);
    for (int i = 0; i < 100; ++i) stream.record().synchronize();
    CHECK(machine.alive("event") == 1);
    std::vector<Event> held;
    for (int i = 0; i < 10; ++i) held.push_back(stream.record());
    CHECK(machine.alive("event") == 10);
  }
  CHECK(machine.alive("event") == 0);
}

TEST_CASE("cuda stream: an event used again does not stand for its earlier place") {
  RecordingCuda machine({.deferred = true});
  Cell cell;
  CudaStream first(cuda(0), Priority::normal);
  CudaStream second(cuda(0), Priority::normal);
  cell.set(first, 1);
  second.wait(first.record());
  cell.set(second, 2);
  first.wait(second.record());
  cell.set(first, 3);
  const Event third = first.record();
  CHECK_FALSE(third.ready());
  third.synchronize();
  CHECK(cell.value() == 3);
  CHECK(machine.alive("event") == 2);
}

TEST_CASE("cuda stream: an event that is not ready yet does no harm to the next launch") {
  RecordingCuda machine({.deferred = true});
  Cell cell;
  CudaStream stream(cuda(0), Priority::normal);
  cell.set(stream, 1);
  const Event event = stream.record();
  CHECK_FALSE(event.ready());
  cell.set(stream, 2);  // CUDA remembers cudaErrorNotReady
  stream.synchronize();
  CHECK(event.ready());
}

TEST_CASE("cuda stream: a failed call does no harm to the next launch") {
  RecordingCuda machine;
  Cell cell;
  CudaStream stream(cuda(0), Priority::normal);
  machine.fail_call("cudaEventCreateWithFlags", 1, cudaErrorMemoryAllocation);
  CHECK_THROWS_WITH_AS(stream.record(),
                       "[record] cuda:0: cudaEventCreateWithFlags failed: out of memory (cudaErrorMemoryAllocation)",
                       DeviceError);
  cell.set(stream, 1);
  machine.fail_call("cudaStreamSynchronize", 1, cudaErrorLaunchFailure);
  CHECK_THROWS_AS(stream.synchronize(), DeviceError);
  cell.set(stream, 2);
  machine.fail_call("cudaEventSynchronize", 1, cudaErrorLaunchFailure);
  CHECK_THROWS_AS(stream.record().synchronize(), DeviceError);
  machine.fail_call("cudaEventQuery", 1, cudaErrorLaunchFailure);
  CHECK(stream.record().ready());  // well or badly
  cell.set(stream, 3);
  stream.synchronize();
  CHECK(cell.value() == 3);
}

TEST_CASE("cuda stream: a launch that CUDA refuses is named") {
  const RecordingCuda machine;
  Cell cell;
  CudaStream stream(cuda(0), Priority::normal);
  CHECK_THROWS_WITH_AS(
      stream.launch("scale", [](cudaStream_t handle) { launch_scale(handle, nullptr, nullptr, 1, 1, 1025); }),
      doctest::Contains("[scale] cuda:0: cudaGetLastError failed: "), DeviceError);
  cell.set(stream, 1);
  stream.synchronize();
}

TEST_CASE("cuda stream: what went wrong on the device is thrown by who waits next, naming what was in flight") {
  RecordingCuda machine({.deferred = true});
  Cell cell;
  CudaStream stream(cuda(1), Priority::normal);
  cell.set(stream, 1, "before");
  stream.synchronize();
  machine.fail_work("cudaMemcpyAsync", cudaErrorIllegalAddress);
  cell.set(stream, 2, "one");
  cell.set(stream, 3, "two");
  const std::string text =
      "cuda:1: an illegal memory access was encountered (cudaErrorIllegalAddress); in flight since the last "
      "synchronisation: one, two";
  SUBCASE("the stream") { CHECK_THROWS_WITH_AS(stream.synchronize(), ("[synchronize] " + text).c_str(), DeviceError); }
  SUBCASE("an event") {
    const Event event = stream.record();
    CHECK_THROWS_WITH_AS(event.synchronize(), ("[event] " + text).c_str(), DeviceError);
  }
  stream.synchronize();
  CHECK(cell.value() == 3);

  machine.fail_work("cudaMemcpyAsync", cudaErrorIllegalAddress);
  cell.set(stream, 4, "three");
  CHECK_THROWS_WITH_AS(stream.synchronize(), doctest::Contains("synchronisation: three"), DeviceError);
}

TEST_CASE("cuda stream: the names of the last operations are kept, and the number of others") {
  RecordingCuda machine({.deferred = true});
  Cell cell;
  CudaStream stream(cuda(0), Priority::normal);
  for (int i = 0; i < 100; ++i) cell.set(stream, 1, i < 36 ? "early" : "late");
  machine.fail_work("cudaMemcpyAsync", cudaErrorIllegalAddress);
  CHECK_THROWS_WITH_AS(stream.synchronize(), doctest::Contains("synchronisation: 36 others, late, late"), DeviceError);
}

TEST_CASE("cuda stream: what is launched during a synchronisation stays in flight") {
  for (const int before : {1, 64, 100}) {
    CAPTURE(before);
    RecordingCuda machine({.deferred = true});
    Cell cell;
    CudaStream stream(cuda(0), Priority::normal);
    for (int i = 0; i < before; ++i) cell.set(stream, 1, "before");
    std::function<void()> launch = [&] { cell.set(stream, 2, "meanwhile"); };
    cudaLaunchHostFunc(
        stream.handle(), [](void* work) { (*static_cast<std::function<void()>*>(work))(); }, &launch);
    stream.synchronize();
    machine.fail_work("cudaMemcpyAsync", cudaErrorIllegalAddress);
    cell.set(stream, 3, "after");
    CHECK_THROWS_WITH_AS(stream.synchronize(), doctest::Contains("last synchronisation: meanwhile, after"),
                         DeviceError);
  }
}

TEST_CASE("cuda stream: with TUTTI_CUDA_SYNC=1 the launch itself throws, and names one operation") {
  RecordingCuda machine({.deferred = true});
  Cell cell;
  setenv("TUTTI_CUDA_SYNC", "1", 1);
  CudaStream stream(cuda(0), Priority::normal);
  unsetenv("TUTTI_CUDA_SYNC");
  cell.set(stream, 1, "good");
  CHECK(cell.value() == 1);
  machine.fail_work("cudaMemcpyAsync", cudaErrorIllegalAddress);
  CHECK_THROWS_WITH_AS(cell.set(stream, 2, "bad"), doctest::Contains("last synchronisation: bad"), DeviceError);
  cell.set(stream, 3, "good");
  CHECK(cell.value() == 3);
}

TEST_CASE("cuda stream: threads may share one") {
  const RecordingCuda machine({.deferred = true});
  Cell cell;
  CudaStream stream(cuda(1), Priority::normal);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        cell.set(stream, 1);
        const Event event = stream.record();
        if (i % 8 == 0) event.synchronize();
        stream.wait(event);
        if (i % 50 == 0) stream.synchronize();
      }
    });
  for (auto& thread : threads) thread.join();
  stream.synchronize();
  CHECK(machine.alive("event") <= 4);
}

}  // namespace
}  // namespace tutti::testing
