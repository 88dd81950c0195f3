// SPDX-License-Identifier: Apache-2.0
// That the recording machine behaves as CUDA does where it matters, and finds the mistakes that it is there for.
#include <tutti/tests/backend/cuda/recording/recording_cuda.h>
#include <tutti/tests/backend/cuda/scale_kernel.h>

#include <doctest/doctest.h>
#include <link.h>

#include <cstring>

namespace tutti::testing {
namespace {

/// Two streams of cuda:0, an event and some memory, used as a careless program would.
struct Careless {
  explicit Careless(MachineOptions options = {.deferred = true}) : machine(options) {
    for (cudaStream_t* stream : {&first, &second}) cudaStreamCreateWithPriority(stream, cudaStreamNonBlocking, 0);
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    cudaMalloc(&data, 1024);
    cudaHostAlloc(&pinned, 1024, cudaHostAllocPortable);
  }
  ~Careless() {
    cudaSetDevice(0);
    for (cudaStream_t stream : {first, second}) {
      cudaStreamSynchronize(stream);
      cudaStreamDestroy(stream);
    }
    cudaEventDestroy(event);
    cudaFree(data);
    cudaFreeHost(pinned);
  }
  std::byte* at(std::size_t offset) const { return static_cast<std::byte*>(data) + offset; }
  void copy_in(cudaStream_t stream, std::size_t offset = 0) {
    cudaMemcpyAsync(at(offset), pinned, 256, cudaMemcpyHostToDevice, stream);
  }
  void copy_out(cudaStream_t stream, std::size_t offset = 0) {
    cudaMemcpyAsync(static_cast<std::byte*>(pinned) + 512, at(offset), 256, cudaMemcpyDeviceToHost, stream);
  }
  /// The one fault there is.
  std::string fault() {
    const auto found = machine.take_faults();
    CHECK(found.size() == 1);
    return found.empty() ? "" : found.front();
  }

  RecordingCuda machine;
  cudaStream_t first = nullptr;
  cudaStream_t second = nullptr;
  cudaEvent_t event = nullptr;
  void* data = nullptr;
  void* pinned = nullptr;
};

TEST_CASE("recording: no library of NVIDIA's is loaded, so every call reaches the recorder") {
  std::string loaded;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* found) {
        for (const char* name : {"libcuda", "libcublas", "libcusolver", "libcufft", "libcudnn", "libnccl"})
          if (std::strstr(info->dlpi_name, name) != nullptr) *static_cast<std::string*>(found) += info->dlpi_name;
        return 0;
      },
      &loaded);
  INFO("a function that the recorder lacks: nm -D --undefined-only");
  CHECK(loaded.empty());
}

TEST_CASE("recording: a call is counted, and without a machine there is no device") {
  int count = -1;
  CHECK(cudaGetDeviceCount(&count) == cudaErrorNoDevice);
  const RecordingCuda machine({.devices = 3});
  CHECK(cudaGetDeviceCount(&count) == cudaSuccess);
  CHECK(count == 3);
  CHECK(machine.count("cudaGetDeviceCount") == 1);
  CHECK(machine.count() == 1);
}

TEST_CASE(
    "recording: a stream that hangs holds up who waits for it, until it goes on; a host that waits is a mistake") {
  Careless it({.deferred = false});
  std::memset(it.pinned, 1, 256);
  it.machine.hang(it.first);
  it.copy_in(it.first);
  cudaEventRecord(it.event, it.first);
  cudaStreamWaitEvent(it.second, it.event, 0);
  it.copy_out(it.second);
  CHECK(cudaEventQuery(it.event) == cudaErrorNotReady);
  CHECK(it.machine.queued(it.second) == 2);
  CHECK(it.machine.faults().empty());
  SUBCASE("for the stream") { cudaStreamSynchronize(it.second); }
  SUBCASE("for the event") { cudaEventSynchronize(it.event); }
  SUBCASE("for the device") { cudaDeviceSynchronize(); }
  CHECK(!it.machine.take_faults().empty());
  it.machine.resume(it.first);
  CHECK(cudaEventQuery(it.event) == cudaSuccess);
  CHECK(it.machine.queued(it.second) == 0);
  CHECK(std::memcmp(it.at(0), it.pinned, 256) == 0);
}

TEST_CASE("recording: deferred work runs when its stream advances, or the host waits for it") {
  Careless it;
  std::memset(it.pinned, 1, 256);
  it.copy_in(it.first);
  cudaEventRecord(it.event, it.first);
  cudaStreamWaitEvent(it.second, it.event, 0);
  it.copy_out(it.second);
  CHECK(cudaEventQuery(it.event) == cudaErrorNotReady);
  CHECK(cudaGetLastError() == cudaErrorNotReady);  // CUDA remembers it, too
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK_FALSE(it.machine.advance(it.second));
  CHECK(it.machine.advance(it.first));
  std::memset(it.pinned, 2, 256);  // too late to be copied
  SUBCASE("by hand") {
    CHECK(it.machine.advance(it.first));
    CHECK(cudaEventQuery(it.event) == cudaSuccess);
    while (it.machine.advance(it.second)) {
    }
  }
  SUBCASE("by the host, for the other stream too") { cudaStreamSynchronize(it.second); }
  CHECK(it.machine.queued(it.first) == 0);
  CHECK(it.machine.queued(it.second) == 0);
  CHECK(static_cast<unsigned char*>(it.pinned)[512] == 1);
}

TEST_CASE("recording: uses on two streams have to be ordered") {
  Careless it;
  it.copy_in(it.first);
  SUBCASE("two reads need no order") {
    cudaStreamSynchronize(it.first);
    it.machine.note_use(it.first, it.data, 256, false);
    it.machine.note_use(it.second, it.data, 256, false);
  }
  SUBCASE("an event does it, through a third party as well") {
    cudaEventRecord(it.event, it.first);
    cudaStreamWaitEvent(it.second, it.event, 0);
    it.machine.note_use(it.second, it.data, 256, true);
  }
  SUBCASE("a synchronisation does it") {
    cudaStreamSynchronize(it.first);
    it.machine.note_use(it.second, it.data, 256, true);
  }
  SUBCASE("an event that the host has seen does it") {
    cudaEventRecord(it.event, it.first);
    cudaEventSynchronize(it.event);
    it.machine.note_use(it.second, it.data, 256, true);
  }
  SUBCASE("other bytes need no order") { it.machine.note_use(it.second, it.at(256), 256, true); }
  SUBCASE("nothing does it") {
    it.machine.note_use(it.second, it.at(255), 10, false);
    CHECK(it.fault() ==
          "work of the test on stream 2 of cuda:0 reads bytes 255 to 265 of allocation 1 (1024 bytes, memory of "
          "cuda:0), which cudaMemcpyAsync on stream 1 of cuda:0 writes: nothing orders the two");
  }
  SUBCASE("an event recorded too early does not") {
    cudaEventRecord(it.event, it.first);
    it.copy_in(it.first);
    cudaStreamWaitEvent(it.second, it.event, 0);
    it.machine.note_use(it.second, it.data, 256, true);
    CHECK(it.fault().find("nothing orders the two") != std::string::npos);
  }
  SUBCASE("an event that was recorded again does not, for who waited before") {
    cudaEventRecord(it.event, it.first);
    cudaStreamWaitEvent(it.second, it.event, 0);
    it.copy_in(it.first);
    cudaEventRecord(it.event, it.first);
    it.machine.note_use(it.second, it.data, 256, true);
    CHECK(it.fault().find("nothing orders the two") != std::string::npos);
  }
}

TEST_CASE("recording: handles and pointers are used while they live, and where they belong") {
  Careless it;
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0);
  SUBCASE("an event that was never recorded") {
    cudaStreamWaitEvent(it.first, it.event, 0);
    CHECK(it.fault() == "cudaStreamWaitEvent of event 1 of cuda:0, which was never recorded");
  }
  SUBCASE("another device is current") {
    cudaSetDevice(1);
    it.copy_in(it.first);
    CHECK(it.fault() == "cudaMemcpyAsync on stream 1 of cuda:0 while cuda:1 is current");
  }
  SUBCASE("another device's memory") {
    void* far = nullptr;
    cudaSetDevice(1);
    cudaMalloc(&far, 64);
    cudaSetDevice(0);
    cudaMemcpyAsync(it.data, far, 64, cudaMemcpyDeviceToDevice, it.first);
    CHECK(it.fault() == "cudaMemcpyAsync on cuda:0 uses allocation 3 (64 bytes, memory of cuda:1)");
    CHECK(cudaMemcpyPeerAsync(it.data, 0, far, 1, 64, it.first) == cudaSuccess);
    cudaStreamSynchronize(it.first);
    cudaFree(far);
  }
  SUBCASE("another device's event") {
    cudaSetDevice(1);
    cudaEvent_t far = nullptr;
    cudaEventCreateWithFlags(&far, cudaEventDisableTiming);
    cudaEventRecord(far, it.first);
    CHECK(it.fault() == "event 2 of cuda:1 was recorded on stream 1 of cuda:0");
    cudaEventDestroy(far);
  }
  SUBCASE("beyond the end") {
    it.copy_in(it.first, 1000);
    CHECK(it.fault().find("uses 256 bytes from byte 1000 of allocation 1") != std::string::npos);
  }
  SUBCASE("the default stream") {
    it.copy_in(nullptr);
    CHECK(it.fault() == "cudaMemcpyAsync on the default stream");
  }
  SUBCASE("memory of the host for memory of the device") {
    cudaMemcpyAsync(it.pinned, it.data, 64, cudaMemcpyHostToDevice, it.first);
    CHECK(it.fault().find("cudaMemcpyAsync takes a pointer to the host for one to a device") == 0);
  }
  cudaStreamDestroy(stream);
}

TEST_CASE("recording: everything is given back once, and when nothing uses it") {
  Careless it;
  void* data = nullptr;
  cudaMalloc(&data, 64);
  SUBCASE("twice") {
    cudaFree(data);
    cudaFree(data);
    CHECK(it.fault() == "cudaFree of allocation 3 (64 bytes, memory of cuda:0), a second time");
  }
  SUBCASE("never") {
    CHECK(it.machine.alive("device memory") == 2);
    CHECK(it.machine.leaks().size() == 6);
    cudaFree(data);
    CHECK(it.machine.leaks().size() == 5);
  }
  SUBCASE("used afterwards") {
    cudaFree(data);
    cudaMemsetAsync(data, 0, 64, it.first);
    CHECK(it.fault().find("which was freed") != std::string::npos);
  }
  SUBCASE("by another function") {
    cudaFreeHost(data);
    CHECK(it.fault() == "cudaFreeHost of a pointer that was not allocated for it");
    cudaFree(data);
  }
  SUBCASE("while queued work uses it, as far as the host can know") {
    cudaMemsetAsync(data, 0, 64, it.first);
    while (it.machine.advance(it.first)) {
    }
    cudaFree(data);
    CHECK(it.fault().find("which cudaMemsetAsync on stream 1 of cuda:0 may still use") != std::string::npos);
  }
  SUBCASE("written beyond its end") {
    static_cast<std::byte*>(data)[64] = std::byte{1};
    cudaFree(data);
    CHECK(it.fault().find("was written beyond its ends") != std::string::npos);
  }
  SUBCASE("a stream with work in its queue") {
    cudaStream_t stream = nullptr;
    cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0);
    cudaMemsetAsync(data, 0, 64, stream);
    cudaStreamDestroy(stream);
    CHECK(it.fault() == "stream 3 of cuda:0 was destroyed while cudaMemsetAsync is queued");
    cudaMemsetAsync(data, 0, 64, stream);
    CHECK(it.fault() == "cudaMemsetAsync on stream 3 of cuda:0, which was destroyed");
    cudaFree(data);
    it.machine.take_faults();
  }
}

TEST_CASE("recording: a kernel is named, its pointers are watched, and a test may say what it does") {
  Careless it;
  auto* input = static_cast<float*>(it.pinned);
  input[0] = 3;
  it.machine.declare_kernel("::scale(", {{.argument = 0, .bytes = 512}, {.argument = 1, .bytes = 512, .write = true}});
  it.machine.on_kernel("::scale(", [](const KernelLaunch& launch) {
    CHECK(launch.grid.x == 1);
    CHECK(launch.block.x == 128);
    return [from = *static_cast<const float**>(launch.arguments[0]), to = *static_cast<float**>(launch.arguments[1]),
            factor = *static_cast<float*>(launch.arguments[2])] { *to = factor * *from; };
  });
  it.copy_in(it.first);
  auto* data = static_cast<float*>(it.data);
  launch_scale(it.first, data, data + 128, 2, 128);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(it.machine.kernels().size() == 1);
  CHECK(it.machine.kernels().front().find("scale(float const*, float*, float, int)") != std::string::npos);
  it.copy_out(it.first, 512);
  cudaStreamSynchronize(it.first);
  CHECK(input[128] == 6);

  launch_scale(it.second, data, data + 128, 2, 128);  // the host has waited for the first
  CHECK(it.machine.faults().empty());
  it.copy_out(it.first, 512);
  CHECK(it.fault().find("scale(float const*, float*, float, int) on stream 2 of cuda:0 writes") != std::string::npos);
}

TEST_CASE("recording: a kernel that cannot be launched says so where it was launched") {
  Careless it;
  launch_scale(it.first, nullptr, nullptr, 1, 128, 1025);
  CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
  cudaSetDevice(1);
  launch_scale(it.first, nullptr, nullptr, 1, 128);
  CHECK(cudaGetLastError() == cudaErrorInvalidResourceHandle);
  CHECK(it.fault().find("while cuda:1 is current") != std::string::npos);
}

TEST_CASE("recording: failures come when they are asked for") {
  Careless it;
  void* data = nullptr;
  it.machine.fail_call("cudaMalloc", 2, cudaErrorMemoryAllocation);
  CHECK(cudaMalloc(&data, 64) == cudaSuccess);
  CHECK_FALSE(it.machine.failed());
  void* none = nullptr;
  CHECK(cudaMalloc(&none, 64) == cudaErrorMemoryAllocation);
  CHECK(it.machine.failed());
  it.machine.fail_call("*", 1, cudaErrorLaunchFailure);
  CHECK(cudaFree(data) == cudaErrorLaunchFailure);  // freed all the same
  cudaGetLastError();

  it.machine.fail_work("cudaMemcpyAsync", cudaErrorIllegalAddress);
  it.copy_in(it.first);
  CHECK(cudaStreamSynchronize(it.first) == cudaErrorIllegalAddress);
  CHECK(cudaStreamSynchronize(it.first) == cudaSuccess);
  it.machine.fail_work("cudaMemcpyAsync", cudaErrorIllegalAddress, true);
  it.copy_in(it.first);
  CHECK(cudaStreamSynchronize(it.first) == cudaErrorIllegalAddress);
  CHECK(cudaMalloc(&none, 64) == cudaErrorIllegalAddress);
  CHECK(cudaGetLastError() == cudaErrorIllegalAddress);
}

}  // namespace
}  // namespace tutti::testing
