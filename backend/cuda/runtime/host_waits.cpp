// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/runtime/host_waits.h>

#include <tutti/backend/cuda/runtime/cuda_check.h>
#include <tutti/backend/cuda/runtime/driver_function.h>
#include <tutti/backend/process/start_thread.h>
#include <tutti/backend/raise.h>

#include <cuda.h>

#include <atomic>
#include <utility>

namespace tutti {

using cuda_runtime::CurrentDevice;
using cuda_runtime::settled;

HostWaits::HostWaits(Device device, cudaStream_t stream, std::function<void(std::exception_ptr)> failed)
    : device_(device), stream_(stream), failed_(std::move(failed)) {
  const CurrentDevice current(device, "wait");
  void* memory = nullptr;
  {
    const std::lock_guard lock(cuda_runtime::launch_or_allocate());
    TUTTI_CUDA(device, "wait",
               cudaHostAlloc(&memory, sizeof(std::uint32_t), cudaHostAllocPortable | cudaHostAllocMapped));
  }
  passed_.reset(new (memory) std::uint32_t(0));
  usable_ = queue_wait(0);  // past already: the driver tells whether it can
}

HostWaits::~HostWaits() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
  (void)settled(cudaStreamSynchronize(stream_));  // it reads the number
}

void HostWaits::FreePinned::operator()(std::uint32_t* number) const noexcept {
  const std::lock_guard lock(cuda_runtime::launch_or_allocate());
  (void)settled(cudaFreeHost(number));
}

// Of version 2, which every device has; but a driver of another system may refuse.
bool HostWaits::queue_wait(std::uint32_t value) {
  using WaitValue = CUresult (*)(CUstream, CUdeviceptr, std::uint32_t value, unsigned flags);
  static const auto wait_value =
      reinterpret_cast<WaitValue>(cuda_runtime::driver_function("cuStreamWaitValue32", 12000));
  if (wait_value == nullptr) return false;
  const CUresult result =
      wait_value(stream_, reinterpret_cast<CUdeviceptr>(passed_.get()), value, CU_STREAM_WAIT_VALUE_GEQ);
  if (result == CUDA_ERROR_NOT_SUPPORTED) return false;
  if (result != CUDA_SUCCESS)
    raise<DeviceError>("[wait] {}: cuStreamWaitValue32 failed: error {} of the driver", to_string(device_),
                       static_cast<int>(result));
  return true;
}

void HostWaits::hold(const Event& event) {
  const std::lock_guard holding(holding_);
  {
    const std::lock_guard lock(mutex_);
    if (!thread_.joinable()) thread_ = start_thread<DeviceError>("wait", [this] { run(); });
    events_.push_back(event);
  }
  changed_.notify_one();
  const CurrentDevice current(device_, "wait");
  queue_wait(++held_);
}

void HostWaits::run() {
  for (std::uint32_t passed = 1;; ++passed) {
    Event event;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || !events_.empty(); });
      if (events_.empty()) return;
      event = std::move(events_.front());
      events_.pop_front();
    }
    try {
      event.synchronize();
    } catch (...) {
      failed_(std::current_exception());
    }
    std::atomic_ref(*passed_).store(passed, std::memory_order_release);
  }
}

}  // namespace tutti
