// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/runtime/gpu_mapping.h>

#include <tutti/backend/process/environment.h>

#include <algorithm>
#include <atomic>

namespace tutti::cuda_runtime {

namespace {

constexpr int kMost = 64;

std::atomic<int> number_per_gpu{1};  // of the process, as the GPUs are

}  // namespace

int devices_per_gpu() noexcept { return number_per_gpu.load(std::memory_order_relaxed); }

void read_devices_per_gpu() {
  number_per_gpu.store(environment_number("TUTTI_CUDA_DEVICES_PER_GPU", 1, 1, kMost), std::memory_order_relaxed);
}

std::vector<Device> first_of_each_gpu(std::span<const Device> devices) {
  std::vector<Device> firsts;
  for (const Device device : devices)
    if (std::ranges::find(firsts, gpu_of(device), gpu_of) == firsts.end()) firsts.push_back(device);
  return firsts;
}

}  // namespace tutti::cuda_runtime
