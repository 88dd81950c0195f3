// SPDX-License-Identifier: Apache-2.0
// Which GPU is a thread's current one when the library has done with it, and which GPUs get a context.
#include <tutti/backend/array.h>
#include <tutti/tests/backend/cuda/recording/recording_cuda.h>
#include <tutti/tests/backend/cuda/renewed_backend.h>

#include <doctest/doctest.h>

#include <thread>
#include <vector>

namespace tutti::testing {
namespace {

int current_device() {
  int device = -1;
  cudaGetDevice(&device);
  return device;
}

void use(Device device) {
  const std::vector<float> values{1, 2, 3};
  CHECK(Array::from(values, {3}, device).to_vector<float>() == values);
}

TEST_CASE("current device: a process that uses the second GPU makes no context on the first") {
  const RecordingCuda machine({.devices = 3});
  const RenewedBackend backend;
  use(cuda(1));
  CHECK(!machine.has_context(0));
  use(cuda(2));
  std::thread([] { use(cuda(1)); }).join();
  CHECK(!machine.has_context(0));
  CHECK(machine.has_context(1));
}

TEST_CASE("current device: what a thread has chosen stays") {
  const RecordingCuda machine({.devices = 3});
  const RenewedBackend backend;
  cudaSetDevice(0);
  use(cuda(1));
  CHECK(current_device() == 0);
  cudaSetDevice(2);
  use(cuda(0));
  use(cuda(1));
  CHECK(current_device() == 2);
}

}  // namespace
}  // namespace tutti::testing
