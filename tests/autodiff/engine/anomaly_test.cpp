// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/anomaly.h>

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/checkpoint.h>
#include <tutti/autodiff/custom_function.h>
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/scope.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/error.h>
#include <tutti/backend/operations.h>
#include <tutti/tests/autodiff/leaves.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace tutti {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST_CASE("anomaly: names the operation whose result is the first that is not finite, and its scope") {
  const Tensor x = leaf({1, 0, -1});
  const auto model = [&] {
    const Scope outer("encoder");
    const Scope inner("layer3");
    return sum(log(x * 2) + 1);
  };
  CHECK_FALSE(model().item<double>() == 0.0);
  const DetectAnomaly detect;
  CHECK_THROWS_WITH_AS(model(), "[anomaly] log in encoder.layer3 made a NaN in its result of shape [3]", AutodiffError);
  CHECK_THROWS_WITH_AS(log(x.slice(0, 0, 2)), "[anomaly] log made an infinity in its result of shape [2]",
                       AutodiffError);
  const NoGrad no_grad;
  CHECK_THROWS_WITH_AS(log(x), doctest::Contains("log made a NaN"), AutodiffError);
}

TEST_CASE("anomaly: what comes from outside is passed on, an infinity that becomes a NaN is not") {
  const Tensor x = leaf({1, 2, 3});
  const Tensor mask(Array::from(std::vector<bool>{true, false, true}, {3}, test_device()));
  const DetectAnomaly detect;
  const Tensor masked = masked_fill(x, mask, -kInfinity);
  CHECK(softmax(masked).to_vector<double>() == Values{0, 1, 0});
  CHECK_THROWS_WITH_AS(masked - masked, doctest::Contains("subtract made a NaN"), AutodiffError);
}

TEST_CASE("anomaly: infinities may be let through") {
  const Tensor x = leaf({0, 1});
  const DetectAnomaly detect({.infinities = false});
  const Tensor y = log(x);
  CHECK_THROWS_WITH_AS(y * 0, doctest::Contains("multiply made a NaN"), AutodiffError);
  const DetectAnomaly both;
  CHECK_THROWS_WITH_AS(log(x), doctest::Contains("an infinity"), AutodiffError);
}

Tensor with_log(const Tensor& a, const Tensor& b) {
  const OperationScope scope("composed", a, b);
  return a * log(b);
}

Tensor with_root(const Tensor& a, const Tensor& b) {
  const OperationScope scope("composed", a, b);
  return sqrt(a) * b;
}

TEST_CASE("anomaly: of an operation that is composed of others it names both that and the step") {
  const Tensor x = leaf({1, -1});
  const Tensor negative = leaf({-1, 2}, {2});
  const DetectAnomaly detect;
  CHECK_THROWS_WITH_AS(with_log(x, negative), "[anomaly] composed (log) made a NaN in its result of shape [2]",
                       AutodiffError);
  const Tensor y = sum(with_root(leaf({0, 1}), leaf({1, 1})));
  CHECK_THROWS_WITH_AS(backward(y), doctest::Contains("the backward of composed (sqrt) made an infinity"),
                       AutodiffError);
}

TEST_CASE("anomaly: names the operation whose gradient is the first that is not finite, and its scope") {
  const Tensor x = leaf({0, 4});
  Tensor y;
  {
    const Scope scope("head");
    y = sum(sqrt(x) * 3);
  }
  backward(y, {.retain_graph = true});
  const DetectAnomaly detect;
  CHECK_THROWS_WITH_AS(backward(y),
                       "[anomaly] the backward of sqrt in head made an infinity in the gradient of its input 0, of "
                       "shape [2]",
                       AutodiffError);
}

TEST_CASE("scopes: errors name the place that an operation was recorded in") {
  const Tensor x = leaf({1, 2});
  Tensor y;
  {
    const Scope scope("decoder");
    y = exp(x);
  }
  CHECK_THROWS_WITH_AS(Tensor(y).set_array(x.array()), doctest::Contains("made by exp in decoder"), AutodiffError);
  backward(sum(y));
  CHECK_THROWS_WITH_AS(backward(sum(y)), doctest::Contains("exp in decoder saved"), AutodiffError);
  const Tensor z = x * x;
  CHECK(z.node()->title() == "multiply");
}

TEST_CASE("anomaly: functions of the user's and writes are looked at too") {
  const Tensor x = leaf({1, 2});
  const auto apply = [&](double factor) {
    return custom_function(
        "mine", {x},
        [&](std::span<const Array> in) { return tutti::apply(elementwise::Log{}, (Tensor(in[0]) * factor).array()); },
        [](std::span<const Array>, const Array&, const Array& dy) { return std::vector<Array>{dy}; });
  };
  const Tensor y = constant({1, 0}, {2});
  const Tensor narrow(Array::zeros({2}, DType::f16, test_device()));
  const DetectAnomaly detect;
  CHECK(apply(1).shape() == Shape{2});
  CHECK_THROWS_WITH_AS(apply(0), "[anomaly] mine made an infinity in its result of shape [2]", AutodiffError);
  CHECK_THROWS_WITH_AS(constant({1, 0}, {2}).div_(y), "[anomaly] div_ made a NaN in its result of shape [2]",
                       AutodiffError);
  CHECK_THROWS_WITH_AS(y[0].div_(0), "[anomaly] div_ made an infinity in its result of shape []", AutodiffError);
  CHECK_THROWS_WITH_AS(narrow.copy_(constant({1, 1e9}, {2})), doctest::Contains("copy_ made an infinity"),
                       AutodiffError);
  y.fill_(kInfinity).add_(1).copy_(constant({kInfinity}, {1}));
}

TEST_CASE("anomaly: a checkpoint's function runs again where it ran first") {
  const Tensor x = leaf({0, 0});
  const auto f = [](const Tensor& in) {
    const Scope scope("head");
    return sqrt(in) * 2;
  };
  Tensor inside;
  {
    const Scope scope("encoder");
    inside = sum(checkpoint(f, x));
  }
  const Tensor outside = sum(checkpoint(f, x));
  const Scope elsewhere("training");
  const DetectAnomaly detect;
  CHECK_THROWS_WITH_AS(backward(inside), doctest::Contains("backward of sqrt in encoder.head made"), AutodiffError);
  CHECK_THROWS_WITH_AS(backward(outside), doctest::Contains("backward of sqrt in head made"), AutodiffError);
  CHECK(to_string(*Scope::site()) == "training");
}

}  // namespace
}  // namespace tutti
