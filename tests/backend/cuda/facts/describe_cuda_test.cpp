// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/facts/describe_cuda.h>
#include <tutti/tests/backend/cuda/devices_per_gpu.h>
#include <tutti/tests/backend/cuda/recording/recording_cuda.h>
#include <tutti/tests/backend/cuda/renewed_backend.h>

#include <doctest/doctest.h>

namespace tutti::testing {

TEST_CASE("cuda facts: GPUs, and versions of what they need, without a context") {
  const DevicesPerGpu two("2");
  const RecordingCuda machine;
  const RenewedBackend backend;
  const CudaFacts facts = cuda_runtime::describe_cuda();
  CHECK(facts.trouble.empty());
  CHECK(facts.devices_per_gpu == 2);
  REQUIRE(facts.gpus.size() == 2);
  CHECK(facts.gpus[1].name == "simulated GPU 1");
  CHECK(facts.gpus[1].compute_capability == "9.0");
  CHECK(facts.gpus[1].memory_bytes == 1U << 30U);
  REQUIRE(facts.libraries.size() == 3);
  for (const ThirdParty& each : facts.libraries) CHECK_MESSAGE(each.version.find('.') != std::string::npos, each.name);
  CHECK(machine.count("cudaSetDevice") == 0);
}

TEST_CASE("cuda facts: a GPU that says nothing, and none at all, are told") {
  {
    RecordingCuda machine;
    machine.fail_call("cudaGetDeviceProperties", 1, cudaErrorInvalidDevice);
    const RenewedBackend backend;
    const CudaFacts facts = cuda_runtime::describe_cuda();
    REQUIRE(facts.gpus.size() == 2);
    CHECK(facts.gpus[0].name.find("says nothing of itself: ") != std::string::npos);
    CHECK(facts.gpus[1].name == "simulated GPU 1");
    CHECK(cudaGetLastError() == cudaSuccess);
  }
  const RecordingCuda machine({.devices = 0});
  const RenewedBackend backend;
  const CudaFacts facts = cuda_runtime::describe_cuda();
  CHECK(facts.trouble == "[device] cuda:0: this machine has no CUDA device");
  CHECK(facts.gpus.empty());
}

}  // namespace tutti::testing
