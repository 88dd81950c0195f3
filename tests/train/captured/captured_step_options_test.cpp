// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/loss.h>
#include <tutti/tests/test_devices.h>
#include <tutti/train/captured_step.h>

#include <doctest/doctest.h>

using namespace tutti;

namespace {

Linear network() {
  Generator random(3);
  Linear model(3, 2, random);
  model.detach_members_to(test_device());
  return model;
}

Tensor ones() { return Tensor(Array::full({4, 3}, 1, DType::f32, test_device())); }

}  // namespace

TEST_CASE("captured step: the scale multiplies gradients, and another one is another capture") {
  Linear model = network();
  CapturedStep step(model, [&](std::span<const Tensor> batch) { return std::vector{model.forward(batch[0]).sum()}; },
                    {.check_every = 0});
  const auto gradient_with = [&](double scale) {
    model.zero_grad();
    step({ones()}, scale);
    return model.weight.grad().to_vector<float>();
  };
  const std::vector<float> once(6, 4.0F);
  const std::vector<float> thrice(6, 12.0F);
  for (int i = 0; i < 5; ++i) CHECK(gradient_with(1.0) == once);
  CHECK(step.report().replayed == 2);
  CHECK(gradient_with(3.0) == thrice);
  CHECK(step.report().reason == "scale 3, captured with 1");
  CHECK(gradient_with(3.0) == thrice);
  CHECK(gradient_with(3.0) == thrice);
  CHECK(gradient_with(1.0) == once);
  CHECK(step.report().captured == 4);
  CHECK(step.report().replayed == 4);
}

TEST_CASE("captured step: early, then ever more seldom, it is seen whether the function still does the same") {
  Linear model = network();
  bool squared = false;
  const CapturedStep::Function function = [&](std::span<const Tensor> batch) {
    const Tensor y = model.forward(batch[0]);
    return std::vector{squared ? square(y).sum() : y.sum()};
  };
  using Steps = std::vector<int>;
  const auto take = [&](CapturedStep& step, int steps) {
    Steps captured;
    for (int i = 1; i <= steps; ++i) {
      const std::int64_t before = step.report().captured;
      model.zero_grad();
      step({ones()});
      if (step.report().captured > before) captured.push_back(i);
    }
    return captured;
  };
  CapturedStep step(model, function, {.check_every = 4});
  CHECK(take(step, 18) == Steps{2, 3, 3 + 1 + 1, 5 + 2 + 1, 8 + 4 + 1, 13 + 4 + 1});
  squared = true;
  take(step, 4);
  CHECK_THROWS_WITH_AS(take(step, 1), doctest::Contains("the 4 steps before, which were replayed"), CaptureError);
  CHECK(take(step, 7) == Steps{1, 2, 2 + 1 + 1, 4 + 2 + 1});  // as it is now

  CapturedStep told(model, function);
  CHECK(take(told, 137).back() == 137);  // of 64 replays
  take(told, 99);
  told.check_soon();
  CHECK(take(told, 1).empty());
  told.check_soon();
  CHECK(take(told, 202) == Steps{1, 1 + 200 + 1});

  CapturedStep unchecked(model, function, {.check_every = 0});
  take(unchecked, 20);
  CHECK(unchecked.report().captured == 2);
  CHECK_THROWS_WITH_AS(CapturedStep(model, function, {.check_every = -1}), doctest::Contains("check_every is -1"),
                       Error);
}

TEST_CASE("captured step: an index out of range in a replay is told as the loss means it") {
  Linear model = network();
  CapturedStep captured(
      model,
      [&](std::span<const Tensor> batch) { return std::vector{cross_entropy(model.forward(batch[0]), batch[1])}; },
      {.check_every = 0});
  const auto take = [&](std::int64_t target) {
    model.zero_grad();
    captured({ones(), Tensor(Array::from(std::vector<std::int64_t>{0, target, 1, 0}, {4}, test_device()))});
    synchronize(test_device());
  };
  for (int i = 0; i < 4; ++i) take(1);
  const std::int64_t before = captured.report().replayed;
  REQUIRE(before > 0);
  std::string text;
  try {
    take(9);
  } catch (const ShapeError& error) {
    text = error.what();
  }
  CHECK(captured.report().replayed == before + 1);
  const char* const told = index_error("[cross_entropy] target 9 at [1] is out of range for 2 classes");
  CHECK_MESSAGE(text.find(told) != std::string::npos, text);
}
