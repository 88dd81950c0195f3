// SPDX-License-Identifier: Apache-2.0
// Operations that need places and weights of their own: these are made on the device, or no step with them could be
// captured.
#include <tutti/train/captured_step.h>

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <utility>

using namespace tutti;

namespace {

struct Image : Module {
  Tensor pixels = Tensor(Generator(1).normal({2, 3, 5, 4}, DType::f32, test_device()), true);
  void visit(MemberVisitor& visitor) override { visitor.parameter("pixels", pixels); }
};

/// Six steps of descent; the losses and what has become of the image.
std::vector<float> descend(const std::function<Tensor(const Tensor&)>& f, bool captured) {
  Image model;
  Generator random(2);
  const auto loss_of = [&](std::span<const Tensor> batch) {
    return std::vector{mean(square(f(model.pixels) - batch[0]))};
  };
  CapturedStep step(model, loss_of);
  const Shape shape = f(model.pixels.detach()).shape();
  std::vector<float> found;
  for (int i = 0; i < 6; ++i) {
    const std::vector<Tensor> batch{Tensor(random.normal(shape, DType::f32, test_device()))};
    const Tensor loss = captured ? step(batch).front() : loss_of(batch).front();
    if (!captured) backward(loss);
    found.push_back(loss.item<float>());
    const NoGrad no_grad;
    model.pixels.sub_(model.pixels.grad() * 0.1);
    model.pixels.zero_grad();
  }
  if (captured) CHECK(step.report().replayed > 0);
  const auto pixels = model.pixels.to_vector<float>();
  found.insert(found.end(), pixels.begin(), pixels.end());
  return found;
}

}  // namespace

TEST_CASE("captured step: images of another size, sampled, padded and pooled to a size") {
  const std::pair<std::string, std::function<Tensor(const Tensor&)>> functions[] = {
      {"nearest",
       [](const Tensor& x) {
         return interpolate(x, {.size = {7, 3}});
       }},
      {"cubic", [](const Tensor& x) { return interpolate(x, {.scale = {1.7}, .mode = Interpolation::cubic}); }},
      {"grid_sample",
       [](const Tensor& x) {
         return grid_sample(x, tanh(x[{all, range(0, 2)}]).permute({0, 2, 3, 1}));
       }},
      {"flip, repeat_interleave",
       [](const Tensor& x) {
         return repeat_interleave(flip(x, {1, -1}), 2, -1);
       }},
      {"reflect",
       [](const Tensor& x) {
         return pad(x, {{}, {}, {1, 2}, {3, 0}}, PaddingMode::reflect);
       }},
      {"adaptive_avg_pool2d",
       [](const Tensor& x) {
         return adaptive_avg_pool2d(x, {3, 3});
       }},
      {"adaptive_max_pool2d",
       [](const Tensor& x) {
         return adaptive_max_pool2d(x, {3, 3});
       }},
      {"conv3d",
       [](const Tensor& x) {
         return conv3d(expand_dims(x, 1), reshape(x, {6, 1, 1, 5, 4}));
       }},
      {"conv_transpose3d",
       [](const Tensor& x) {
         return conv_transpose3d(expand_dims(x, 1), reshape(x, {1, 6, 1, 5, 4}));
       }},
  };
  for (const auto& [name, f] : functions) {
    CAPTURE(name);
    CHECK(descend(f, true) == descend(f, false));
  }
}
