// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/engines/nccl/nccl_communicator.h>
#include <tutti/tests/backend/cuda/recording/recording_cuda.h>
#include <tutti/tests/backend/cuda/renewed_backend.h>
#include <tutti/tests/distributed/engines/nccl/recording_nccl.h>
#include <tutti/tests/distributed/engines/nccl/wire_simulation.h>

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

namespace tutti::testing {

/// Devices cuda:0, cuda:1, ... on a simulated GPU each, whose reductions really happen.
struct NcclMachine {
  explicit NcclMachine(int count, bool deferred = false) : cuda_machine({.devices = count, .deferred = deferred}) {
    simulate_reduction_kernels(cuda_machine);
    for (int d = 0; d < count; ++d) devices.push_back(cuda(static_cast<std::uint16_t>(d)));
  }

  std::unique_ptr<NcclCommunicator> connect() const {
    return std::make_unique<NcclCommunicator>(devices, std::chrono::seconds(5));
  }
  void join_all(const std::shared_ptr<CollectiveTask>& task) const {
    for (const Device device : devices) join_tasks(device, std::vector{task});
  }
  void synchronize_all() const {
    for (const Device device : devices) synchronize(device);
  }

  RecordingCuda cuda_machine;
  RecordingNccl nccl;
  RenewedBackend backend;
  std::vector<Device> devices;
};

/// Everything is ready once what its devices have queued so far has run.
inline AllReduceRequest sum_of(std::vector<AllReduceSlice> slices, double denominator = 1.0) {
  AllReduceRequest request{.slices = std::move(slices), .ready = {}, .denominator = denominator};
  for (const AllReduceSlice& slice : request.slices)
    request.ready.push_back(compute_stream(slice.gradient.device()).record());
  return request;
}

/// [1, 2, 3] on each.
inline std::vector<AllReduceSlice> slices_on(const std::vector<Device>& devices) {
  std::vector<AllReduceSlice> slices;
  for (const Device device : devices) slices.push_back({Array::from(std::vector<float>{1, 2, 3}, {3}, device)});
  return slices;
}

/// A reduction of those ends, and well.
inline void check_works(NcclCommunicator& engine, const std::vector<Device>& devices) {
  const std::vector<AllReduceSlice> slices = slices_on(devices);
  const auto task = engine.all_reduce(sum_of(slices));
  for (const Device device : devices) join_tasks(device, std::vector{task});
  const auto n = static_cast<float>(devices.size());
  for (const AllReduceSlice& slice : slices)
    CHECK(slice.gradient.to_vector<float>() == std::vector<float>{n, 2 * n, 3 * n});
}

}  // namespace tutti::testing
