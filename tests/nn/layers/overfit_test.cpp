// SPDX-License-Identifier: Apache-2.0
// Layers, losses and backward together: small problems must be learnt to the end.
#include <doctest/doctest.h>
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/nn/activation.h>
#include <tutti/nn/conv2d.h>
#include <tutti/nn/flatten.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/loss.h>
#include <tutti/nn/pooling.h>
#include <tutti/nn/sequential.h>
#include <tutti/tests/test_devices.h>

using namespace tutti;

namespace {

/// Plain gradient descent, so that this test does not lean on optim/.
void descend(Module& module, float rate) {
  for (Tensor& parameter : module.parameters()) {
    const NoGrad no_grad;
    const Tensor updated = parameter.detach() - rate * parameter.grad();
    Array value = parameter.array();
    value.copy_from(updated.array());
    parameter.zero_grad();
  }
}

float train(Sequential& network, const Tensor& x, const Tensor& targets, int steps, float rate) {
  for (int step = 0; step < steps; ++step) {
    backward(cross_entropy(network.forward(x), targets));
    descend(network, rate);
  }
  return cross_entropy(network.forward(x), targets).item<float>();
}

}  // namespace

TEST_CASE("overfit: two linear layers learn exclusive or") {
  Generator random(5);
  Sequential network(Linear(2, 16, random, {.device = test_device()}), Tanh(),
                     Linear(16, 2, random, {.device = test_device()}));
  const Tensor x(Array::from(std::vector<float>{0, 0, 0, 1, 1, 0, 1, 1}, {4, 2}, test_device()));
  const Tensor targets(Array::from(std::vector<std::int64_t>{0, 1, 1, 0}, {4}, test_device()));
  CHECK(train(network, x, targets, 500, 0.5F) < 0.05F);
}

TEST_CASE("overfit: a convolutional network learns random labels") {
  Generator random(6);
  Sequential network(Conv2d(1, 8, 3, random, {.padding = 1, .device = test_device()}), ReLU(), MaxPool2d(2), Flatten(),
                     Linear(8 * 3 * 3, 4, random, {.device = test_device()}));
  const Tensor x(random.normal({12, 1, 6, 6}, DType::f32, test_device()));
  std::vector<std::int64_t> labels;
  for (int i = 0; i < 12; ++i) labels.push_back(static_cast<std::int64_t>(random.below(4)));
  const Tensor targets(Array::from(labels, {12}, test_device()));
  CHECK(train(network, x, targets, 150, 0.2F) < 0.05F);
}
