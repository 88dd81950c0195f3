// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/backend/operations.h>
#include <tutti/nn/conv2d.h>
#include <tutti/nn/initialize.h>
#include <tutti/nn/linear.h>
#include <tutti/tests/test_devices.h>

#include <algorithm>
#include <cmath>

using namespace tutti;

namespace {

struct Statistics {
  double mean = 0;
  double deviation = 0;
  double least = 0;
  double most = 0;
};

Statistics statistics_of(const Tensor& tensor) {
  const std::vector<float> values = tensor.to_vector<float>();
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  Statistics result{0, 0, *least, *most};
  for (const float value : values) result.mean += value;
  result.mean /= static_cast<double>(values.size());
  for (const float value : values) result.deviation += (value - result.mean) * (value - result.mean);
  result.deviation = std::sqrt(result.deviation / static_cast<double>(values.size()));
  return result;
}

Tensor weight() { return Tensor(Array::zeros({128, 64, 3, 3}, DType::f32, test_device()), true); }

void check_normal(const Tensor& tensor, double deviation) {
  const Statistics got = statistics_of(tensor);
  CHECK(std::abs(got.mean) < 0.02 * deviation);
  CHECK(got.deviation == doctest::Approx(deviation).epsilon(0.02));
  CHECK(got.most > 3 * deviation);  // 73,728 draws: a uniform distribution would end at 1.73
}

void check_uniform(const Tensor& tensor, double bound) {
  const Statistics got = statistics_of(tensor);
  CHECK(std::abs(got.mean) < 0.02 * bound);
  CHECK(got.deviation == doctest::Approx(bound / std::sqrt(3.0)).epsilon(0.02));
  CHECK(got.least >= -bound);
  CHECK(got.most <= bound);
  CHECK(got.most > 0.98 * bound);
}

}  // namespace

TEST_CASE("initialize: fans count the kernel") {
  CHECK(fan_of({5, 7}).in == 7);
  CHECK(fan_of({5, 7}).out == 5);
  CHECK(fan_of({5, 7, 3, 2}).in == 42);
  CHECK(fan_of({5, 7, 3, 2}).out == 30);
  CHECK_THROWS_AS(fan_of({5}), ShapeError);
}

TEST_CASE("initialize: kaiming") {
  Generator random(11);
  const double fan_in = 64 * 9;
  const double fan_out = 128 * 9;
  const Tensor w = weight();
  kaiming_normal(w, random);
  check_normal(w, std::sqrt(2 / fan_in));
  kaiming_normal(w, random, {.mode = KaimingOptions::Mode::fan_out});
  check_normal(w, std::sqrt(2 / fan_out));
  kaiming_uniform(w, random);
  check_uniform(w, std::sqrt(6 / fan_in));
  kaiming_uniform(w, random, {.slope = 2});
  check_uniform(w, std::sqrt(6 / (5 * fan_in)));
}

TEST_CASE("initialize: gains are those of torch.nn.init.calculate_gain") {
  CHECK(gain_of(Nonlinearity::linear) == 1);
  CHECK(gain_of(Nonlinearity::sigmoid) == 1);
  CHECK(gain_of(Nonlinearity::tanh) == doctest::Approx(1.6666666666666667).epsilon(1e-15));
  CHECK(gain_of(Nonlinearity::relu) == doctest::Approx(1.4142135623730951).epsilon(1e-15));
  CHECK(gain_of(Nonlinearity::leaky_relu) == doctest::Approx(1.4141428569978354).epsilon(1e-15));
  CHECK(gain_of(Nonlinearity::leaky_relu, 0.2) == doctest::Approx(1.3867504905630728).epsilon(1e-15));
  CHECK(gain_of(Nonlinearity::selu) == 0.75);
  Generator random(11);
  const Tensor w = weight();
  kaiming_normal(w, random, {.nonlinearity = Nonlinearity::linear});
  check_normal(w, 1 / std::sqrt(64 * 9.0));
  kaiming_uniform(w, random, {.nonlinearity = Nonlinearity::tanh});
  check_uniform(w, 5.0 / 3 * std::sqrt(3 / (64 * 9.0)));
  xavier_uniform(w, random, gain_of(Nonlinearity::relu));
  check_uniform(w, std::sqrt(12 / ((64 + 128) * 9.0)));
}

TEST_CASE("initialize: identity passes a matrix's and a convolution's input through") {
  const auto values = [](const Tensor& x) { return x.to_vector<double>(); };
  Tensor matrix(Array::full({2, 3}, 7, DType::f64, test_device()), true);
  const void* storage = matrix.identity();
  identity(matrix);
  CHECK(matrix.identity() == storage);
  CHECK(values(matrix) == std::vector<double>{1, 0, 0, 0, 1, 0});
  CHECK_THROWS_AS(identity(Tensor(Array::zeros({2}, DType::f64, test_device()))), ShapeError);
  CHECK_THROWS_AS(identity(Tensor(Array::zeros({2, 2}, DType::i32, test_device()))), DTypeError);

  Generator random(16);
  Conv2d layer(4, 6, 3, random,
               {.padding = 1, .groups = 2, .bias = false, .dtype = DType::f64, .device = test_device()});
  identity_convolution(layer.weight, 2);
  const Tensor x(random.normal({2, 4, 5, 5}, DType::f64, test_device(), 0, 1));
  const Tensor y = layer.forward(x);
  for (std::int64_t group = 0; group < 2; ++group) {  // two channels in, three out, of which the last has no input
    CHECK(values(slice(y, 1, 3 * group, 3 * group + 2)) == values(slice(x, 1, 2 * group, 2 * group + 2)));
    for (const double value : values(slice(y, 1, 3 * group + 2, 3 * group + 3))) CHECK(value == 0);
  }
  Tensor line(Array::full({2, 2, 4}, 7, DType::f64, test_device()));
  identity_convolution(line);
  CHECK(values(line) == std::vector<double>{0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0});
  CHECK_THROWS_AS(identity_convolution(matrix), ShapeError);
  CHECK_THROWS_WITH_AS(identity_convolution(line, 3), doctest::Contains("3 groups do not divide 2 channels"),
                       ShapeError);
}

TEST_CASE("initialize: xavier") {
  Generator random(12);
  const double fans = (64 + 128) * 9;
  const Tensor w = weight();
  xavier_normal(w, random);
  check_normal(w, std::sqrt(2 / fans));
  xavier_uniform(w, random, 3.0);
  check_uniform(w, 3 * std::sqrt(6 / fans));
}

TEST_CASE("initialize: layers start as PyTorch's") {
  Generator random(13);
  const Linear linear(400, 300, random, {.device = test_device()});
  check_uniform(linear.weight, 1 / std::sqrt(400.0));
  CHECK(statistics_of(linear.bias).most <= 1 / std::sqrt(400.0));
  CHECK(statistics_of(linear.bias).most > 0.9 / std::sqrt(400.0));
  const Conv2d conv(64, 64, 3, random, {.device = test_device()});
  check_uniform(conv.weight, 1 / std::sqrt(64 * 9.0));
}

TEST_CASE("initialize: writes in place, also where others look") {
  Generator random(14);
  const Tensor w = weight();
  const Array view = w.array().slice(0, 0, 1);
  const void* identity = w.identity();
  fill_uniform(w, random, 5.0, 6.0);
  CHECK(w.identity() == identity);
  const std::vector<float> seen = view.copy().to_vector<float>();
  CHECK(*std::min_element(seen.begin(), seen.end()) >= 5.0F);
  fill_normal(w, random, 100.0, 0.001);
  CHECK(statistics_of(w).mean == doctest::Approx(100.0).epsilon(1e-3));
}

TEST_CASE("initialize: refuses integers") {
  Generator random(15);
  CHECK_THROWS_AS(kaiming_uniform(Tensor(Array::zeros({2, 2}, DType::i32, test_device())), random), DTypeError);
}

namespace {

/// The largest difference of `matrix` times its transpose from `factor` times the identity.
double distance_from_identity(const Tensor& matrix, double factor) {
  const Array rows = matrix.array().cast(DType::f64);
  const std::vector<double> products = matmul(rows, rows.transpose()).to_vector<double>();
  const auto count = static_cast<std::size_t>(rows.length(0));
  double most = 0;
  for (std::size_t i = 0; i < products.size(); ++i)
    most = std::max(most, std::abs(products[i] - (i % (count + 1) == 0 ? factor : 0)));
  return most;
}

Tensor empty(const Shape& shape, DType dtype = DType::f64) {
  return Tensor(Array::zeros(shape, dtype, test_device()), true);
}

}  // namespace

TEST_CASE("initialize: orthogonal weights are orthonormal, by rows or by columns") {
  Generator random(20);
  for (const std::int64_t rows : {1, 5, 33, 100}) {
    CAPTURE(rows);
    const Tensor wide = empty({rows, 100});
    orthogonal(wide, random, 1.5);
    CHECK(distance_from_identity(wide, 2.25) < 1e-13);
    const Tensor tall = empty({100, rows});
    orthogonal(tall, random);
    CHECK(distance_from_identity(transpose(tall), 1) < 1e-13);
  }
  const Tensor kernel = empty({6, 4, 3, 3}, DType::f32);
  orthogonal(kernel, random);
  CHECK(distance_from_identity(reshape(kernel, {6, 36}), 1) < 1e-6);
  CHECK_THROWS_AS(orthogonal(empty({3}), random), ShapeError);
  CHECK_THROWS_AS(orthogonal(Tensor(Array::zeros({2, 2}, DType::i32, test_device())), random), DTypeError);
}

TEST_CASE("initialize: orthogonal directions are spread evenly") {
  Generator random(21);
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < 400; ++i) {
    const Tensor small = empty({2, 2});
    orthogonal(small, random);
    const double corner = small.to_vector<double>()[0];
    sum += corner;
    squares += corner * corner;
  }
  CHECK(std::abs(sum / 400) < 5 * std::sqrt(0.5 / 400));  // cos of an even angle: mean 0, square 1/2
  CHECK(std::abs(squares / 400 - 0.5) < 5 * std::sqrt(0.125 / 400));
}

TEST_CASE("initialize: constants, and normal numbers without tails") {
  Generator random(22);
  const Tensor x = weight();
  fill_truncated_normal(x, random, 0, 0.02, -0.04, 0.04);
  const Statistics got = statistics_of(x);
  CHECK(std::abs(got.mean) < 0.02 * 0.02);
  CHECK(got.deviation == doctest::Approx(0.02 * 0.8796256610342398).epsilon(0.02));
  CHECK(got.least >= -0.04F);
  CHECK(got.most <= 0.04F);
  CHECK(got.most > 0.039F);
  fill_constant(x, 0.25);
  CHECK(statistics_of(x).least == 0.25);
  CHECK(statistics_of(x).most == 0.25);
  CHECK_THROWS_AS(fill_constant(Tensor(Array::zeros({2}, DType::i32, test_device())), 1), DTypeError);
}
