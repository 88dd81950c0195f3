// SPDX-License-Identifier: Apache-2.0
// Weights in f32, forward and backward in f16, gradients that f16 cannot hold.
#include <doctest/doctest.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/random.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/loss.h>
#include <tutti/optim/gradient_scaler.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/test_devices.h>
#include <tutti/tests/train/list_stream.h>
#include <tutti/train/eager_trainer.h>

#include <algorithm>
#include <vector>

namespace tutti {
namespace {

constexpr double kSize = 1e-5;  // of the targets: gradients of a mean over 16384 elements are below f16's 6e-8

struct Regression {
  Regression() {
    Generator random(3);
    const Array x = random.normal({512, 8}, DType::f32, test_device());
    const Tensor weight(random.normal({32, 8}, DType::f32, test_device(), 0.0, kSize));
    batch = {Tensor(x), linear(Tensor(x), weight), 512};
    model.detach_members_to(test_device());
    const NoGrad no_grad;
    model.weight.fill_(0);
  }

  Batch batch;
  Generator unused{1};
  Linear model{8, 32, unused, {.bias = false}};
};

/// The loss after `steps` of SGD, over its square of the targets' size.
double loss_after(std::int64_t steps, DType narrow, GradientScaler* scaler, std::vector<float>* weights = nullptr) {
  Regression task;
  ListStream data(std::vector<Batch>(static_cast<std::size_t>(steps), task.batch));
  Sgd optimizer(task.model.parameters(), 8.0);
  EagerTrainer<Batch> trainer(task.model, optimizer, data,
                              [&](const Batch& b) -> Losses {
                                return {{"loss", mse_loss(task.model.forward(b.inputs), b.targets)}};
                              },
                              {.autocast = narrow, .scaler = scaler});
  trainer.train({.steps = steps});
  CHECK(task.model.weight.dtype() == DType::f32);
  if (weights != nullptr) *weights = task.model.weight.to_vector<float>();
  return mse_loss(task.model.forward(task.batch.inputs), task.batch.targets).item<double>() / (kSize * kSize);
}

TEST_CASE("f16: gradients that vanish in the type are kept by the scaler, for weights in f32") {
  const double before = loss_after(0, DType::f32, nullptr);
  std::vector<float> weights;
  CHECK(loss_after(50, DType::f16, nullptr, &weights) == before);
  CHECK(std::ranges::count(weights, 0.0F) == static_cast<std::ptrdiff_t>(weights.size()));
  GradientScaler scaler;
  const double scaled = loss_after(50, DType::f16, &scaler);
  const double wide = loss_after(50, DType::f32, nullptr);
  MESSAGE("before " << before << ", scaled " << scaled << ", in f32 " << wide);
  CHECK(wide < 0.02 * before);
  CHECK(scaled < 0.02 * before);
  CHECK(scaler.scale() == 65536.0);  // nothing overflowed
}

}  // namespace
}  // namespace tutti
