// SPDX-License-Identifier: Apache-2.0
// Several devices on each GPU, and copies between devices.
#include <tutti/backend/cuda/runtime/gpu_mapping.h>

#include <tutti/backend/array.h>
#include <tutti/backend/error.h>
#include <tutti/tests/backend/cuda/devices_per_gpu.h>
#include <tutti/tests/backend/cuda/recording/recording_cuda.h>
#include <tutti/tests/backend/cuda/renewed_backend.h>

#include <doctest/doctest.h>

#include <numeric>
#include <vector>

namespace tutti::testing {
namespace {

std::vector<float> counting(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0F);
  return values;
}

CudaStream& compute(const RenewedBackend& backend, Device device) { return backend->stream(device); }

TEST_CASE("gpu mapping: devices are numbered GPU by GPU") {
  const DevicesPerGpu three("3");
  const RecordingCuda machine({.devices = 2});
  const RenewedBackend backend;
  CHECK(cuda_runtime::devices_per_gpu() == 3);
  CHECK(cuda_runtime::gpu_of(cuda(2)) == 0);
  CHECK(cuda_runtime::gpu_of(cuda(3)) == 1);
  const std::vector<Device> group{cuda(2), cuda(4), cuda(0), cuda(3)};
  CHECK(cuda_runtime::first_of_each_gpu(group) == std::vector<Device>{cuda(2), cuda(4)});
  backend->check(cuda(5));
  CHECK_THROWS_WITH_AS(backend->check(cuda(6)), "[device] cuda:6: this machine has 6 CUDA devices, from cuda:0 on",
                       DeviceError);
}

TEST_CASE("gpu mapping: devices of one GPU have their own memory, streams and staging") {
  const DevicesPerGpu two("2");
  const RecordingCuda machine({.devices = 2, .deferred = true});
  const RenewedBackend backend;
  for (const std::uint16_t index : {0, 1, 2, 3}) {
    const Array array = Array::from(counting(1000), {1000}, cuda(index));
    CHECK(array.to_vector<float>() == counting(1000));
    CHECK(backend->pool(cuda(index)).statistics().allocations == 1);
  }
  CHECK(machine.alive("stream") == 8);
  CHECK(&compute(backend, cuda(0)) != &compute(backend, cuda(1)));
}

TEST_CASE("gpu mapping: a number that is none is refused") {
  const RecordingCuda machine;
  for (const char* text : {"0", "-1", "two", "65", "2 "}) {
    CAPTURE(text);
    const DevicesPerGpu wrong(text);
    CHECK_THROWS_WITH_AS(cuda_runtime::read_devices_per_gpu(), doctest::Contains("TUTTI_CUDA_DEVICES_PER_GPU is"),
                         Error);
  }
  CHECK(cuda_runtime::devices_per_gpu() == 1);
  const DevicesPerGpu unset("");
  cuda_runtime::read_devices_per_gpu();
  CHECK(cuda_runtime::devices_per_gpu() == 1);
}

TEST_CASE("device copies: from device to device, not through the host, behind one stream and in front of both") {
  const DevicesPerGpu two("2");
  const RecordingCuda machine({.devices = 2, .deferred = true});
  const RenewedBackend backend;
  for (const std::uint16_t target : {1, 2}) {  // of the same GPU, and of another one
    CAPTURE(target);
    const Array from = Array::from(counting(1000), {1000}, cuda(0));
    compute(backend, cuda(target));
    const std::size_t before = machine.count("cudaMemcpyAsync");
    const std::size_t peer_before = machine.count("cudaMemcpyPeerAsync");
    const Array to = from.to(cuda(target));
    CHECK(machine.count("cudaMemcpyAsync") - before == (target == 1 ? 1 : 0));
    CHECK(machine.count("cudaMemcpyPeerAsync") - peer_before == (target == 1 ? 0 : 1));
    CHECK(machine.queued(compute(backend, cuda(target)).handle()) > 0);
    CHECK(to.to_vector<float>() == counting(1000));
  }
}

TEST_CASE("device copies: the source's memory may be used again at once, and the target's before") {
  RecordingCuda machine({.devices = 2, .deferred = true});
  const RenewedBackend backend;
  const Array source = Array::from(counting(100), {100}, cuda(0));
  const Array target = Array::from(counting(100), {100}, cuda(1));
  {
    const Array gone = source.copy();
    const void* place = gone.raw_data();
    Array copied = gone.to(cuda(1));
    machine.note_use(compute(backend, cuda(1)).handle(), copied.raw_data(), copied.bytes(), true);
    machine.note_use(compute(backend, cuda(0)).handle(), place, 400, true);
  }
  machine.note_use(compute(backend, cuda(1)).handle(), target.raw_data(), target.bytes(), true);
  Array into = target;
  into.copy_from(source);
  machine.note_use(compute(backend, cuda(0)).handle(), source.raw_data(), source.bytes(), true);
  CHECK(into.to_vector<float>() == counting(100));
}

TEST_CASE("device copies: views go through a contiguous temporary on their own device") {
  RecordingCuda machine({.devices = 2});
  const RenewedBackend backend;
  const Array matrix = Array::from(counting(12), {3, 4}, cuda(0));
  Array columns = Array::zeros({4, 3}, DType::f32, cuda(1));
  const std::size_t kernels = machine.kernels().size();
  columns.copy_from(matrix.permute({1, 0}));
  CHECK(machine.kernels().size() == kernels + 1);  // on the source
  CHECK(machine.count("cudaMemcpyPeerAsync") == 1);
  Array part = Array::zeros({4, 6}, DType::f32, cuda(1)).slice(1, 0, 3);
  part.copy_from(matrix.permute({1, 0}));
  CHECK(machine.count("cudaMemcpyPeerAsync") == 2);
  backend->stream(cuda(1)).synchronize();
}

}  // namespace
}  // namespace tutti::testing
