// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/activation.h>

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/module_tree.h>
#include <tutti/nn/sequential.h>
#include <tutti/tests/autodiff/leaves.h>

#include <doctest/doctest.h>

#include <cmath>
#include <string>

using namespace tutti;

namespace {

constexpr double kSelu = 1.0507009873554805;
constexpr double kSeluAlpha = 1.6732632423543772;

double logistic(double x) { return 1 / (1 + std::exp(-x)); }
double elu(double x, double alpha) { return x > 0 ? x : alpha * std::expm1(x); }

/// The formula at many points, by a module that is called as its class is; `name` is the class'.
template <class Layer, class Formula> void check(const char* name, const Layer& layer, const Formula& formula) {
  CAPTURE(name);
  const Values points{-7, -3, -1.5, -0.6, -0.25, 0, 0.25, 0.6, 1.5, 3, 7};
  const Values found = layer.forward(constant(points, {11})).template to_vector<double>();
  for (std::size_t i = 0; i < points.size(); ++i) {
    CAPTURE(points[i]);
    CHECK(found[i] == doctest::Approx(formula(points[i])).epsilon(1e-12));
  }
  CHECK(class_name(layer) == name);
  Sequential chained(layer);
  CHECK(chained.parameters().empty());
  CHECK(chained.forward(constant(points, {11})).to_vector<double>() == found);
}

}  // namespace

TEST_CASE("activations: each module computes PyTorch's formula with PyTorch's defaults, and has its name") {
  check("ReLU", ReLU(), [](double x) { return std::fmax(x, 0); });
  check("ReLU6", ReLU6(), [](double x) { return std::fmin(std::fmax(x, 0), 6); });
  check("LeakyReLU", LeakyReLU(), [](double x) { return x > 0 ? x : 0.01 * x; });
  check("GELU", GELU(), [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); });
  check("GELUTanh", GELUTanh(), [](double x) {
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
  });
  check("ELU", ELU(), [](double x) { return elu(x, 1); });
  check("CELU", CELU(), [](double x) { return elu(x, 1); });
  check("SELU", SELU(), [](double x) { return kSelu * elu(x, kSeluAlpha); });
  check("SiLU", SiLU(), [](double x) { return x * logistic(x); });
  check("Mish", Mish(), [](double x) { return x * std::tanh(std::log1p(std::exp(x))); });
  check("Softplus", Softplus(), [](double x) { return std::log1p(std::exp(x)); });
  check("Softsign", Softsign(), [](double x) { return x / (1 + std::abs(x)); });
  check("Tanh", Tanh(), [](double x) { return std::tanh(x); });
  check("Tanhshrink", Tanhshrink(), [](double x) { return x - std::tanh(x); });
  check("Sigmoid", Sigmoid(), logistic);
  check("LogSigmoid", LogSigmoid(), [](double x) { return std::log(logistic(x)); });
  check("Hardtanh", Hardtanh(), [](double x) { return std::fmin(std::fmax(x, -1), 1); });
  check("Hardsigmoid", Hardsigmoid(), [](double x) { return std::fmin(std::fmax(x + 3, 0), 6) / 6; });
  check("Hardswish", Hardswish(), [](double x) { return x * std::fmin(std::fmax(x + 3, 0), 6) / 6; });
  check("Hardshrink", Hardshrink(), [](double x) { return std::abs(x) <= 0.5 ? 0 : x; });
  check("Softshrink", Softshrink(), [](double x) { return std::copysign(std::fmax(std::abs(x) - 0.5, 0), x); });
}

TEST_CASE("activations: numbers are taken in PyTorch's order") {
  check("LeakyReLU", LeakyReLU(0.2), [](double x) { return x > 0 ? x : 0.2 * x; });
  check("ELU", ELU(0.5), [](double x) { return elu(x, 0.5); });
  check("CELU", CELU(1.5), [](double x) { return x > 0 ? x : 1.5 * std::expm1(x / 1.5); });
  check("Softplus", Softplus(2), [](double x) { return std::log1p(std::exp(2 * x)) / 2; });
  check("Hardshrink", Hardshrink(1), [](double x) { return std::abs(x) <= 1 ? 0 : x; });
  check("Softshrink", Softshrink(1), [](double x) { return std::copysign(std::fmax(std::abs(x) - 1, 0), x); });
  check("Hardtanh", Hardtanh(-2, 0.5), [](double x) { return std::fmin(std::fmax(x, -2), 0.5); });
  check("Threshold", Threshold(0.1, 20), [](double x) { return x > 0.1 ? x : 20; });
  CHECK(LeakyReLU(0.2).slope() == 0.2);
  CHECK(Hardtanh(-2, 0.5).numbers() == std::tuple(-2.0, 0.5));
}

TEST_CASE("activations: along an axis, the last unless given") {
  const Tensor x = spread({2, 4, 6}, 1);
  const auto same = [](const Tensor& a, const Tensor& b) { return a.to_vector<double>() == b.to_vector<double>(); };
  CHECK(same(Softmax().forward(x), softmax(x, 2)));
  CHECK(same(Softmax(1).forward(x), softmax(x, 1)));
  CHECK(same(LogSoftmax(0).forward(x), log_softmax(x, 0)));
  CHECK(same(Softmin(1).forward(x), softmax(-x, 1)));
  CHECK(same(GLU().forward(x), glu(x, 2)));
  CHECK(GLU(1).forward(x).shape() == Shape{2, 2, 6});
  CHECK(class_name(GLU()) == "GLU");
  CHECK_THROWS_WITH_AS(GLU(0).forward(spread({3, 2}, 1)),
                       doctest::Contains("[glu] axis 0 has 3 elements: halves need an even number"), ShapeError);
  CHECK(glu(constant({}, {2, 0})).shape() == Shape{2, 0});
}

TEST_CASE("PReLU: one slope, or one for each channel, which are axis 1") {
  PReLU one(1, {.dtype = DType::f64, .device = test_device()});
  CHECK(one.weight.to_vector<double>() == Values{0.25});
  CHECK(one.forward(constant({-2, 4}, {2})).to_vector<double>() == Values{-0.5, 4});
  CHECK(one.forward(constant({-2}, {})).to_vector<double>() == Values{-0.5});
  CHECK(one.forward(constant({-2, 4, -8, 1, -1, -4}, {1, 2, 3})).to_vector<double>() ==
        Values{-0.5, 4, -2, 1, -0.25, -1});

  // As long in every other axis, so that a slope along the wrong one would not be refused.
  for (const Shape& shape : {Shape{3, 3}, Shape{3, 3, 3}, Shape{3, 3, 3, 3}}) {
    PReLU each(3, {.dtype = DType::f64, .device = test_device()});
    each.weight.set_array(Array::from(Values{0.5, 2, 3}, {3}, test_device()));
    const Tensor x = spread(shape, 2);
    const Values given = x.to_vector<double>();
    const Values found = each.forward(x).to_vector<double>();
    const std::size_t behind = given.size() / 9;
    const double slopes[] = {0.5, 2, 3};
    for (std::size_t i = 0; i < given.size(); ++i)
      CHECK(found[i] == doctest::Approx(given[i] > 0 ? given[i] : given[i] * slopes[i / behind % 3]));
  }
}

TEST_CASE("PReLU: learns its slopes") {
  PReLU layer(2, {.slope = 0.5, .dtype = DType::f64, .device = test_device()});
  REQUIRE(layer.named_parameters().size() == 1);
  CHECK(layer.named_parameters().front().first == "weight");
  CHECK(class_name(layer) == "PReLU");
  backward(sum(layer.forward(constant({-1, 2, -3, 4, -5, -6}, {1, 2, 3}))));
  CHECK(layer.weight.grad().to_vector<double>() == Values{-4, -11});
  check_gradients(
      [&](const std::vector<Tensor>& in) {
        PReLU copy = layer;
        copy.weight = in[1];
        return copy.forward(in[0]);
      },
      {spread({2, 2, 3}, 3), leaf({0.3, 0.7})});
}

TEST_CASE("PReLU: what does not fit") {
  const PReLU layer(3, {.device = test_device()});
  CHECK_THROWS_WITH_AS(layer.forward(constant(Values(8, 1), {2, 4})),
                       doctest::Contains("[PReLU] needs x [n, 3, ...], got [2, 4]"), ShapeError);
  CHECK_THROWS_WITH_AS(layer.forward(constant(Values(3, 1), {3})), doctest::Contains("got [3]"), ShapeError);
  CHECK_THROWS_WITH_AS(PReLU(0), doctest::Contains("[PReLU] the number of channels must be positive, got 0"),
                       ShapeError);
  CHECK_THROWS_AS(PReLU(1, {.dtype = DType::i32}), DTypeError);
}
