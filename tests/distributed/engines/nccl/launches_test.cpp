// SPDX-License-Identifier: Apache-2.0
// What operations on tensors queue on a CUDA device. They stand here because this program links them with the recorder.
#include <tutti/autodiff/operations/attention.h>
#include <tutti/autodiff/operations/elementwise_operations.h>
#include <tutti/optim/clip.h>
#include <tutti/tests/backend/cuda/recording/recording_cuda.h>
#include <tutti/tests/backend/cuda/renewed_backend.h>

#include <doctest/doctest.h>

#include <vector>

namespace tutti::testing {
namespace {

Tensor on_device(const Shape& shape) { return Tensor(Array::zeros(shape, DType::f32, cuda(0))); }

TEST_CASE("launches: a tensor and a literal are one kernel, once the literal is known") {
  const RecordingCuda machine;
  const RenewedBackend backend;
  const Tensor x = on_device({3, 5});
  const auto launched = [&](const auto& work) {
    const std::size_t before = machine.kernels().size();
    work();
    return machine.kernels().size() - before;
  };
  CHECK(launched([&] { (void)(x * 0.5); }) == 2);
  CHECK(launched([&] { (void)(x * 0.5); }) == 1);
  CHECK(launched([&] { (void)(1 - x); }) == 2);
  CHECK(launched([&] { (void)maximum(x, 1); }) == 1);
}

TEST_CASE("launches: causal attention by blocks takes nothing from the host") {
  const RecordingCuda machine({.deferred = true});
  const RenewedBackend backend;
  const Tensor x = on_device({2, 64, 8});
  const std::size_t before = machine.count("cudaHostAlloc");
  (void)scaled_dot_product_attention(x, x, x, {.causal = true, .block = 4});
  CHECK(machine.count("cudaHostAlloc") == before);  // no block for copies
  synchronize(cuda(0));
}

TEST_CASE("launches: gradients are clipped without waiting for the device") {
  const RecordingCuda machine({.deferred = true});
  const RenewedBackend backend;
  std::vector<Tensor> parameters;
  for (int i = 0; i < 3; ++i) {
    parameters.emplace_back(Array::zeros({4}, DType::f32, cuda(1)), true);
    parameters.back().gradient_slot().gradient = Array::zeros({4}, DType::f32, cuda(1));
    parameters.back().gradient_slot().state = GradientState::accumulated;
  }
  const auto waits = [&] { return machine.count("cudaStreamSynchronize") + machine.count("cudaEventSynchronize"); };
  const std::size_t before = waits();
  const Tensor norm = clip_grad_norm_queued(parameters, 1.0);
  CHECK(norm.device() == cuda(1));
  CHECK(waits() == before);
  synchronize(cuda(1));
}

}  // namespace
}  // namespace tutti::testing
