// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/cuda_backend.h>

#include <tutti/backend/error.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace tutti {

using cuda_runtime::CurrentDevice;

namespace {

/// cudaMalloc and cudaFree, which wait for the device: the pool above them keeps what it was given.
class DeviceMemory final : public RawMemory {
 public:
  explicit DeviceMemory(Device device) : device_(device) {}

  void* allocate(std::size_t bytes) override {
    const CurrentDevice current(device_, "memory");
    void* data = nullptr;
    const cudaError_t error = cudaMalloc(&data, bytes);
    if (error == cudaSuccess) return data;
    (void)cudaGetLastError();  // it is remembered otherwise
    if (error != cudaErrorMemoryAllocation) cuda_runtime::raise_cuda_error(error, "cudaMalloc", device_, "memory");
    return nullptr;
  }
  void release(void* data, std::size_t) noexcept override { cudaFree(data); }

 private:
  Device device_;
};

}  // namespace

CudaBackend::Context::Context(Device device)
    : memory(std::make_unique<DeviceMemory>(device)),
      pool(device, *memory),
      staging(device),
      index_faults(device),
      compute(device, CudaStream::Priority::normal),
      communication(device, CudaStream::Priority::high),
      cublas(device) {
  compute.after_waiting([this] { index_faults.check(); });
}

// What is still queued may use any of this.
CudaBackend::Context::~Context() {
  for (CudaStream* stream : {&compute, &communication}) try {
      stream->synchronize();
    } catch (...) {  // the device is lost: nothing runs there any more
    }
}

CudaBackend::CudaBackend() {
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  (void)cudaGetLastError();  // it is remembered otherwise
  if (error == cudaErrorNoDevice) return;
  if (error != cudaSuccess)
    raise<DeviceError>("[device] cuda:0: CUDA cannot be used here: {} ({})", cudaGetErrorString(error),
                       cudaGetErrorName(error));
  devices_ = std::min<int>(devices, kMaxDevices);
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
  if (slot.load() == nullptr) slot.store(new Context(device), std::memory_order_release);
  return *slot.load();
}

// Through pinned blocks, so that the host may go on, and `from` be used again, before the device has copied.
void CudaBackend::copy_from_host(const void* from, const Array& to) {
  Context& own = context(to.device());
  const auto* source = static_cast<const std::byte*>(from);
  for (std::size_t done = 0; done < to.bytes();) {
    const std::size_t bytes = std::min(PinnedMemory::kBlock, to.bytes() - done);
    std::byte* block = own.staging.take();
    Event used;
    try {
      std::memcpy(block, source + done, bytes);
      own.compute.launch("copy_from_host", [&](cudaStream_t stream) {
        TUTTI_CUDA(to.device(), "copy_from_host",
                   cudaMemcpyAsync(to.raw_data() + done, block, bytes, cudaMemcpyHostToDevice, stream));
      });
      used = own.compute.record();
    } catch (...) {
      own.staging.give_back(block, std::move(used));
      throw;
    }
    own.staging.give_back(block, std::move(used));
    done += bytes;
  }
}

// The copy out of one block overlaps with the device's into the next.
void CudaBackend::copy_to_host(const Array& from, void* to) {
  Context& own = context(from.device());
  auto* target = static_cast<std::byte*>(to);
  struct Arriving {
    std::byte* block = nullptr;
    Event arrived;
    std::size_t begin = 0;
    std::size_t bytes = 0;
  };
  Arriving arriving;
  const auto receive = [&] {
    if (arriving.block == nullptr) return;
    const Arriving now = std::exchange(arriving, {});
    try {
      now.arrived.synchronize();
    } catch (...) {
      own.staging.give_back(now.block, {});
      throw;
    }
    std::memcpy(target + now.begin, now.block, now.bytes);
    own.staging.give_back(now.block, {});
  };
  for (std::size_t done = 0; done < from.bytes();) {
    Arriving next{own.staging.take(), {}, done, std::min(PinnedMemory::kBlock, from.bytes() - done)};
    try {
      own.compute.launch("copy_to_host", [&](cudaStream_t stream) {
        TUTTI_CUDA(from.device(), "copy_to_host",
                   cudaMemcpyAsync(next.block, from.raw_data() + done, next.bytes, cudaMemcpyDeviceToHost, stream));
      });
      next.arrived = own.compute.record();
      receive();
    } catch (...) {
      own.staging.give_back(next.block, std::move(next.arrived));
      throw;
    }
    done += next.bytes;
    arriving = std::move(next);
  }
  receive();
  own.compute.synchronize();
}

}  // namespace tutti
