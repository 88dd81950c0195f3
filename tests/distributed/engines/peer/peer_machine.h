// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/engines/peer/peer_communicator.h>
#include <tutti/tests/backend/cuda/devices_per_gpu.h>
#include <tutti/tests/backend/cuda/recording/recording_cuda.h>
#include <tutti/tests/backend/cuda/renewed_backend.h>
#include <tutti/tests/distributed/engines/peer/slice_simulation.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tutti::testing {

using Tasks = std::vector<std::shared_ptr<CollectiveTask>>;

/// Devices cuda:0, cuda:1, ... on simulated GPUs, whose sums really happen.
struct PeerMachine {
  explicit PeerMachine(int devices, int gpus = 1, bool deferred = false)
      : per_gpu(std::to_string((devices + gpus - 1) / gpus).c_str()),
        machine({.devices = gpus, .deferred = deferred}),
        devices(cuda_devices(devices)) {
    simulate_slice_kernels(machine);
  }
  static std::vector<Device> cuda_devices(int count) {
    std::vector<Device> all;
    for (int d = 0; d < count; ++d) all.push_back(cuda(static_cast<std::uint16_t>(d)));
    return all;
  }

  std::unique_ptr<PeerCommunicator> connect() const { return std::make_unique<PeerCommunicator>(devices); }
  void join_all(const Tasks& tasks) const {
    for (const Device device : devices) join_tasks(device, tasks);
  }
  void synchronize_all() const {
    for (const Device device : devices) synchronize(device);
  }

  DevicesPerGpu per_gpu;
  RecordingCuda machine;
  RenewedBackend backend;
  std::vector<Device> devices;
};

template <class T> Array array_on(Device device, const std::vector<T>& values) {
  return Array::from(values, {static_cast<std::int64_t>(values.size())}, device);
}

/// Everything is ready once what its devices have queued so far has run.
inline AllReduceRequest sum_of(std::vector<AllReduceSlice> slices, double denominator = 1.0) {
  AllReduceRequest request{.slices = std::move(slices), .ready = {}, .denominator = denominator};
  for (const AllReduceSlice& slice : request.slices)
    request.ready.push_back(compute_stream(slice.gradient.device()).record());
  return request;
}

}  // namespace tutti::testing
