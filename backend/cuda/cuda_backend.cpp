// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/cuda_backend.h>

#include <tutti/backend/cuda/runtime/gpu_mapping.h>
#include <tutti/backend/cuda/runtime/staged_block.h>
#include <tutti/backend/raise.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace tutti {

using cuda_runtime::CurrentDevice;
using cuda_runtime::settled;

namespace {

/// cudaMalloc and cudaFree, which are slow: the pool above them keeps what it was given.
class DeviceMemory final : public RawMemory {
 public:
  explicit DeviceMemory(Device device) : device_(device) {}

  void* allocate(std::size_t bytes) override {
    const CurrentDevice current(device_, "memory");
    void* data = nullptr;
    const std::lock_guard lock(cuda_runtime::launch_or_allocate());
    const cudaError_t error = settled(cudaMalloc(&data, bytes));
    if (error == cudaSuccess) return data;
    if (error != cudaErrorMemoryAllocation) cuda_runtime::raise_cuda_error(error, "cudaMalloc", device_, "memory");
    return nullptr;
  }
  // What the pool holds may still be in use by what is queued. cudaFree waits for all of it, which nobody is to do
  // while he holds the lock.
  void release(void* data, std::size_t) noexcept override {
    try {
      const CurrentDevice current(device_, "memory");
      for (const CudaStream* stream : {compute_, communication_})
        if (stream != nullptr) (void)settled(cudaStreamSynchronize(stream->handle()));
    } catch (...) {  // the device is lost: nothing runs there any more
    }
    const std::lock_guard lock(cuda_runtime::launch_or_allocate());
    (void)settled(cudaFree(data));
  }
  void used_by(const CudaStream* compute, const CudaStream* communication) noexcept {
    compute_ = compute;
    communication_ = communication;
  }

 private:
  Device device_;
  const CudaStream* compute_ = nullptr;  // null: there is nothing queued
  const CudaStream* communication_ = nullptr;
};

}  // namespace

CudaBackend::Context::Context(Device device, MemoryPool::Keeps keeps)
    : memory(std::make_unique<DeviceMemory>(device)),
      pool(device, *memory, keeps),
      index_faults(device),
      matrix_faults(device),
      compute(device, CudaStream::Priority::normal),
      communication(device, CudaStream::Priority::high),
      staging(device),
      cublas(device),
      transforms(compute, pool),
      solvers(device, compute.handle()),
      convolutions(make_convolution_library(device)),
      literals(device) {
  static_cast<DeviceMemory&>(*memory).used_by(&compute, &communication);
  compute.after_waiting([this] {
    index_faults.check();
    matrix_faults.check();
  });
}

// What is still queued may use any of this.
CudaBackend::Context::~Context() {
  for (CudaStream* stream : {&compute, &communication}) try {
      stream->synchronize();
    } catch (...) {  // the device is lost: nothing runs there any more
    }
  static_cast<DeviceMemory&>(*memory).used_by(nullptr, nullptr);
}

CudaBackend::CudaBackend() {
  cuda_runtime::read_devices_per_gpu();
  int gpus = 0;
  const cudaError_t error = settled(cudaGetDeviceCount(&gpus));
  if (error == cudaErrorNoDevice) return;
  // The runtime calls a missing driver one that is too old.
  if (int driver = 0;
      error == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0)
    raise<DeviceError>(
        "[device] cuda:0: CUDA cannot be used here: there is no driver on this machine (libcuda.so.1 was looked for "
        "where the system's loader looks: LD_LIBRARY_PATH, and the folders of ldconfig)");
  if (error != cudaSuccess)
    raise<DeviceError>("[device] cuda:0: CUDA cannot be used here: {} ({})", cudaGetErrorString(error),
                       cudaGetErrorName(error));
  devices_ = std::min<int>(gpus * cuda_runtime::devices_per_gpu(), kMaxDevices);
}

CudaBackend::~CudaBackend() {
  for (auto& slot : contexts_) delete slot.load();
}

void CudaBackend::check(Device device) const {
  if (device.index < devices_) return;
  if (devices_ == 0) raise<DeviceError>("[device] {}: this machine has no CUDA device", to_string(device));
  raise<DeviceError>("[device] {}: this machine has {} CUDA devices, from cuda:0 on", to_string(device), devices_);
}

CudaBackend::Context& CudaBackend::make_context(Device device) {
  check(device);
  const std::lock_guard lock(making_);
  auto& slot = contexts_[device.index];
  if (slot.load() == nullptr) slot.store(new Context(device, pools_keep_), std::memory_order_release);
  return *slot.load();
}

// Through pinned blocks, so that the host may go on, and `from` be used again, before the device has copied.
void CudaBackend::copy_from_host(const void* from, const Array& to) {
  Context& own = context(to.device());
  const auto* source = static_cast<const std::byte*>(from);
  for (std::size_t done = 0; done < to.bytes(); done += PinnedMemory::kBlock) {
    const std::size_t bytes = std::min(PinnedMemory::kBlock, to.bytes() - done);
    StagedBlock block(own.staging, own.staging.take(), own.compute);
    std::memcpy(block.data(), source + done, bytes);
    block.launch("copy_from_host", [&](cudaStream_t stream) {
      TUTTI_CUDA(to.device(), "copy_from_host",
                 cudaMemcpyAsync(to.raw_data() + done, block.data(), bytes, cudaMemcpyHostToDevice, stream));
    });
  }
}

// The copy out of one block overlaps with the device's into the next.
void CudaBackend::copy_to_host(const Array& from, void* to) {
  Context& own = context(from.device());
  auto* target = static_cast<std::byte*>(to);
  struct Piece {
    StagedBlock block;
    std::size_t begin = 0;
    std::size_t bytes = 0;
  };
  Piece arriving;
  const auto receive = [&] {
    Piece now = std::exchange(arriving, {});
    if (!now.block) return;
    now.block.wait();
    std::memcpy(target + now.begin, now.block.data(), now.bytes);
  };
  for (std::size_t done = 0; done < from.bytes(); done += PinnedMemory::kBlock) {
    std::byte* block = own.staging.try_take();
    if (block == nullptr) {  // others hold the rest, and may wait for the one held here
      receive();
      block = own.staging.take();
    }
    Piece next{StagedBlock(own.staging, block, own.compute), done, std::min(PinnedMemory::kBlock, from.bytes() - done)};
    next.block.launch("copy_to_host", [&](cudaStream_t stream) {
      TUTTI_CUDA(
          from.device(), "copy_to_host",
          cudaMemcpyAsync(next.block.data(), from.raw_data() + done, next.bytes, cudaMemcpyDeviceToHost, stream));
    });
    receive();
    arriving = std::move(next);
  }
  receive();
  own.compute.synchronize();
}

}  // namespace tutti
