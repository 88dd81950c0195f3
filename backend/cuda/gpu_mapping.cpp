// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/gpu_mapping.h>

#include <tutti/backend/error.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <string_view>

namespace tutti::cuda_runtime {

namespace {

constexpr const char* kVariable = "TUTTI_CUDA_DEVICES_PER_GPU";
constexpr int kMost = 64;

std::atomic<int> number_per_gpu{1};  // of the process, as the GPUs are

}  // namespace

int devices_per_gpu() noexcept { return number_per_gpu.load(std::memory_order_relaxed); }

void read_devices_per_gpu() {
  const char* variable = std::getenv(kVariable);
  const std::string_view text = variable == nullptr ? "1" : variable;
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < 1 || number > kMost)
    raise<DeviceError>("[device] {}={}: it takes a number from 1 to {}", kVariable, text, kMost);
  number_per_gpu.store(number, std::memory_order_relaxed);
}

std::vector<Device> first_of_each_gpu(std::span<const Device> devices) {
  std::vector<Device> firsts;
  for (const Device device : devices)
    if (std::ranges::find(firsts, gpu_of(device), gpu_of) == firsts.end()) firsts.push_back(device);
  return firsts;
}

}  // namespace tutti::cuda_runtime
