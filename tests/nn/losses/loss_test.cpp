// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/nn/loss.h>
#include <tutti/tests/test_devices.h>

#include <cmath>

using namespace tutti;

namespace {

const std::vector<double> kLogits{1.0, 2.0, 0.5, -1.0, 0.0, 3.0};
const std::vector<std::int64_t> kTargets{1, 0};

double softmax_of(std::size_t row, std::size_t column) {
  double sum = 0;
  for (std::size_t i = 0; i < 3; ++i) sum += std::exp(kLogits[row * 3 + i]);
  return std::exp(kLogits[row * 3 + column]) / sum;
}

Tensor targets(const std::vector<std::int64_t>& values) {
  return Tensor(Array::from(values, {static_cast<std::int64_t>(values.size())}, test_device()));
}

Tensor logits(bool requires_grad = false) { return Tensor(Array::from(kLogits, {2, 3}, test_device()), requires_grad); }

}  // namespace

TEST_CASE("cross_entropy: values of all reductions") {
  const double first = -std::log(softmax_of(0, 1));
  const double second = -std::log(softmax_of(1, 0));
  CHECK(cross_entropy(logits(), targets(kTargets)).item<double>() == doctest::Approx((first + second) / 2));
  CHECK(cross_entropy(logits(), targets(kTargets), LossReduction::sum).item<double>() ==
        doctest::Approx(first + second));
  const Tensor each = cross_entropy(logits(), targets(kTargets), LossReduction::none);
  CHECK(each.shape() == Shape{2});
  CHECK(each.to_vector<double>()[0] == doctest::Approx(first));
  CHECK(each.to_vector<double>()[1] == doctest::Approx(second));
}

TEST_CASE("cross_entropy: the gradient is (softmax - one-hot) / n") {
  const Tensor x = logits(true);
  backward(cross_entropy(x, targets(kTargets)));
  const std::vector<double> gradient = x.grad().to_vector<double>();
  for (std::size_t row = 0; row < 2; ++row)
    for (std::size_t column = 0; column < 3; ++column) {
      const bool is_target = static_cast<std::int64_t>(column) == kTargets[row];
      CHECK(gradient[row * 3 + column] == doctest::Approx((softmax_of(row, column) - (is_target ? 1.0 : 0.0)) / 2));
    }
}

TEST_CASE("cross_entropy: large logits neither overflow nor lose their gradient") {
  const Tensor x(Array::from(std::vector<float>{1000, -1000}, {1, 2}, test_device()), true);
  const Tensor loss = cross_entropy(x, targets({1}));
  CHECK(loss.item<float>() == 2000.0F);
  backward(loss);
  CHECK(x.grad().to_vector<float>() == std::vector<float>{1, -1});
}

TEST_CASE("cross_entropy: refuses operands that do not fit") {
  CHECK_THROWS_AS(cross_entropy(logits(), targets({1})), ShapeError);
  CHECK_THROWS_AS(cross_entropy(reshape(logits(), {6}), targets(kTargets)), ShapeError);
  CHECK_THROWS_AS(cross_entropy(logits(), Tensor(Array::zeros({2}, DType::f32, test_device()))), DTypeError);
  CHECK_THROWS_AS(cross_entropy(Tensor(Array::zeros({2, 3}, DType::i64, test_device())), targets(kTargets)),
                  DTypeError);
  const Tensor nothing(Array::zeros({0, 3}, DType::f32, test_device()));
  CHECK_THROWS_AS(cross_entropy(nothing, targets({})), ShapeError);
  CHECK(cross_entropy(nothing, targets({}), LossReduction::sum).item<float>() == 0.0F);
}

TEST_CASE("cross_entropy: a class number out of range is an error, not a wrong value") {
  for (const std::int64_t bad : {std::int64_t{3}, std::int64_t{-1}, std::int64_t{1} << 40}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(cross_entropy(logits(), targets({0, bad})).item<double>(), ShapeError);
  }
}

TEST_CASE("losses of classes: a number out of range is told with its place, the classes and what is ignored") {
  const auto error_of = [](const auto& f) -> std::string {
    try {
      f().template item<double>();
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing";
  };
  const auto told = [](const std::string& error, const std::string& name, const std::string& what) {
    INFO(error);
    return error.starts_with(index_error(("[" + name + "] ").c_str())) &&
           error.find(index_error(what.c_str())) != std::string::npos;
  };
  CHECK(told(error_of([] {
               return cross_entropy(logits(), targets({0, 3}));
             }),
             "cross_entropy", "target 3 at [1] is out of range for 3 classes"));
  CHECK(told(error_of([] {
               return cross_entropy(logits(), targets({-1, -7}), {.ignore_index = -1});
             }),
             "cross_entropy", "target -7 at [1] is out of range for 3 classes, and not the ignored -1"));
  CHECK(told(error_of([] {
               return cross_entropy(logits(), targets({5, 0}),
                                    {.weight = Tensor(Array::zeros({3}, DType::f64, test_device()))});
             }),
             "cross_entropy", "target 5 at [0] is out of range for 3 classes"));
  CHECK(told(error_of([] {
               return nll_loss(logits(), targets({0, 4}));
             }),
             "nll_loss", "target 4 at [1] is out of range for 3 classes"));
  const Tensor many = targets({0, 1, 2, 0, 9, 9}).reshape({2, 3});
  CHECK(
      told(error_of([&] {
             return cross_entropy(Tensor(Array::zeros({2, 5, 3}, DType::f64, test_device())), many, {.class_axis = 1});
           }),
           "cross_entropy", "target 9 at [1, 1] is out of range for 5 classes"));
}

TEST_CASE("mse_loss: value, gradient, and no silent broadcasting") {
  const Tensor x(Array::from(std::vector<double>{1, 2, 4}, {3}, test_device()), true);
  const Tensor y(Array::from(std::vector<double>{0, 2, 1}, {3}, test_device()));
  const Tensor loss = mse_loss(x, y);
  CHECK(loss.item<double>() == doctest::Approx(10.0 / 3));
  backward(loss);
  CHECK(x.grad().to_vector<double>()[0] == doctest::Approx(2.0 / 3));
  CHECK(x.grad().to_vector<double>()[2] == doctest::Approx(2.0));
  CHECK(mse_loss(x, y, LossReduction::sum).item<double>() == 10.0);
  CHECK(mse_loss(x, y, LossReduction::none).to_vector<double>() == std::vector<double>{1, 0, 9});
  CHECK_THROWS_AS(mse_loss(x, reshape(y, {3, 1})), ShapeError);
}

TEST_CASE("losses: a batch mean is the sum divided by the examples, of any loss, with its gradient") {
  const Tensor x = logits(true);
  const Tensor y(Array::zeros({2, 3}, DType::f64, test_device()));
  const Tensor loss = mse_loss(x, y, LossReduction::batch_mean);
  CHECK(loss.shape() == Shape{});
  CHECK(loss.item<double>() == doctest::Approx(mse_loss(x, y, LossReduction::sum).item<double>() / 2));
  backward(loss);
  for (std::size_t i = 0; i < 6; ++i) CHECK(x.grad().to_vector<double>()[i] == doctest::Approx(kLogits[i]));
  CHECK(cross_entropy(x, targets(kTargets), LossReduction::batch_mean).item<double>() ==
        doctest::Approx(cross_entropy(x, targets(kTargets)).item<double>()));
  const Tensor shares = softmax(logits(), 1).detach();
  const Tensor apart = kl_div(log_softmax(-x, 1), shares, {LossReduction::batch_mean});
  CHECK(apart.item<double>() ==
        doctest::Approx(kl_div(log_softmax(-x, 1), shares, {LossReduction::none}).sum().item<double>() / 2));
  const Tensor one = sum(x);
  CHECK_THROWS_WITH_AS(mse_loss(one, one, LossReduction::batch_mean),
                       doctest::Contains("[mse_loss] a batch mean needs a first axis, of examples"), ShapeError);
  const Tensor nothing(Array::zeros({0, 3}, DType::f64, test_device()));
  CHECK_THROWS_AS(mse_loss(nothing, nothing, LossReduction::batch_mean), ShapeError);
}

TEST_CASE("losses: a reduction that there is not is refused") {
  const Tensor x(Array::zeros({2, 3}, DType::f32, test_device()));
  const Tensor classes(Array::zeros({2}, DType::i64, test_device()));
  const auto unknown = static_cast<LossReduction>(7);
  CHECK_THROWS_WITH_AS(mse_loss(x, x, unknown), doctest::Contains("[mse_loss] 7 is no LossReduction: there are 0 to 3"),
                       Error);
  CHECK_THROWS_WITH_AS(cross_entropy(x, classes, unknown), doctest::Contains("[cross_entropy] 7 is no LossReduction"),
                       Error);
}
