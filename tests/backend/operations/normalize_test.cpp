// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/error.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/random.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace tutti;

namespace {

using Values = std::vector<double>;

Array random_array(const Shape& shape, DType dtype, std::uint64_t seed, double mean = 0.0) {
  Generator random(seed);
  return random.normal(shape, dtype, test_device(), mean, 1.0);
}

Values values(const Array& array) { return array.cast(DType::f64).to_vector<double>(); }

// The formulas, in f64 and in the order in which they are written.
struct Expected {
  Values output, mean, scale, gradient, weight, bias;
};

Expected expected(const RowNorm& norm, const Array& input, const Values& weight, const Values& bias,
                  const Array& gradient) {
  const Values x = values(input);
  const Values dy = values(gradient);
  const auto rows = static_cast<std::size_t>(input.length(0));
  const auto length = static_cast<std::size_t>(input.length(1));
  Expected result{Values(x.size()), {}, {}, Values(x.size()), Values(length, 0.0), Values(length, 0.0)};
  const double count = static_cast<double>(length);
  for (std::size_t r = 0; r < rows; ++r) {
    const auto at = [&](std::size_t i) { return r * length + i; };
    double mean = 0, variance = 0, level = 0, along = 0;
    for (std::size_t i = 0; i < length; ++i) mean += norm.centred ? x[at(i)] / count : 0;
    for (std::size_t i = 0; i < length; ++i) variance += (x[at(i)] - mean) * (x[at(i)] - mean) / count;
    const double scale = 1 / std::sqrt(variance + norm.epsilon);
    const auto n = [&](std::size_t i) { return (x[at(i)] - mean) * scale; };
    for (std::size_t i = 0; i < length; ++i) {
      result.output[at(i)] = n(i) * weight[i] + bias[i];
      level += norm.centred ? dy[at(i)] * weight[i] / count : 0;
      along += dy[at(i)] * weight[i] * n(i) / count;
      result.weight[i] += dy[at(i)] * n(i);
      result.bias[i] += dy[at(i)];
    }
    for (std::size_t i = 0; i < length; ++i)
      result.gradient[at(i)] = scale * (dy[at(i)] * weight[i] - level - n(i) * along);
    result.mean.push_back(mean);
    result.scale.push_back(scale);
  }
  return result;
}

void check_near(const Array& array, const Values& wanted, double epsilon) {
  const Values found = values(array);
  REQUIRE(found.size() == wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(found[i] == doctest::Approx(wanted[i]).epsilon(epsilon).scale(1));
  }
}

void check(const Shape& shape, DType dtype, bool centred, bool affine) {
  CAPTURE(to_string(shape));
  CAPTURE(to_string(dtype));
  const RowNorm norm{.centred = centred, .epsilon = 1e-3};
  const auto columns = static_cast<std::size_t>(shape[1]);
  const Array x = random_array(shape, dtype, 1, 0.5);
  const Array dy = random_array(shape, dtype, 2);
  const Array weight = affine ? random_array({shape[1]}, computed_in(dtype), 3) : Array();
  const Array bias = affine ? random_array({shape[1]}, computed_in(dtype), 4) : Array();
  const auto wanted = expected(norm, x, affine ? values(weight) : Values(columns, 1.0),
                               affine ? values(bias) : Values(columns, 0.0), dy);
  const double last_rounding = dtype == DType::bf16 ? 0.01 : dtype == DType::f32 ? 1e-4 : 1e-11;
  const double epsilon = dtype == DType::f64 ? 1e-11 : 1e-4;
  const auto [y, mean, scale] = normalize_rows(norm, x, weight, bias);
  CHECK(y.dtype() == dtype);
  check_near(y, wanted.output, last_rounding);
  check_near(mean, wanted.mean, epsilon);
  check_near(scale, wanted.scale, epsilon);
  check_near(normalize_rows_gradient(norm, x, weight, mean, scale, dy), wanted.gradient, last_rounding);
  const auto both = normalize_rows_column_gradients(x, mean, scale, dy, true);
  check_near(both.weight, wanted.weight, epsilon);
  check_near(both.bias, wanted.bias, epsilon);
  CHECK_FALSE(normalize_rows_column_gradients(x, mean, scale, dy, false).bias.defined());
}

}  // namespace

TEST_CASE("normalize_rows: equals its formulas, for any length, type and number of rows") {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16})
    for (const Shape& shape : {Shape{1, 1}, Shape{3, 5}, Shape{2, 16}, Shape{5, 33}, Shape{300, 7}, Shape{2, 1500}})
      for (const bool centred : {true, false})
        for (const bool affine : {true, false}) check(shape, dtype, centred, affine);
}

TEST_CASE("normalize_rows: a large mean and a long row cost no accuracy") {
  const std::int64_t length = 100'000;
  const Array x = random_array({1, length}, DType::f32, 5, 1000.0);
  const auto wanted =
      expected({}, x, Values(static_cast<std::size_t>(length), 1.0), Values(static_cast<std::size_t>(length), 0.0), x);
  const auto [y, mean, scale] = normalize_rows({}, x);
  CHECK(values(mean)[0] == doctest::Approx(wanted.mean[0]).epsilon(1e-7));
  CHECK(values(scale)[0] == doctest::Approx(wanted.scale[0]).epsilon(1e-5));
  check_near(y, wanted.output, 1e-3);  // 1000 has 6e-5 between neighbours
}

TEST_CASE("normalize_rows: sums of columns go where they are asked to") {
  const Array x = random_array({9, 4}, DType::f32, 6);
  const auto [y, mean, scale] = normalize_rows({}, x);
  const Array both = Array::zeros({2, 4}, DType::f32, test_device());
  const Array weight = both.slice(0, 0, 1).reshape({4});
  const Array bias = both.slice(0, 1, 2).reshape({4});
  const auto result = normalize_rows_column_gradients(x, mean, scale, x, true, weight, bias);
  CHECK(result.weight.storage() == both.storage());
  CHECK(result.bias.storage() == both.storage());
  CHECK(both.slice(0, 0, 1).to_vector<float>() ==
        normalize_rows_column_gradients(x, mean, scale, x, false).weight.to_vector<float>());
}

TEST_CASE("normalize_rows: views, no rows, no columns; and what it refuses") {
  const Array x = random_array({4, 6}, DType::f64, 7);
  CHECK(values(normalize_rows({}, x.transpose()).output) == values(normalize_rows({}, x.transpose().copy()).output));
  for (const Shape& shape : {Shape{0, 3}, Shape{3, 0}}) {
    const Array none = Array::zeros(shape, DType::f32, test_device());
    const auto [y, mean, scale] = normalize_rows({}, none);
    CHECK(y.shape() == shape);
    CHECK(values(normalize_rows_column_gradients(none, mean, scale, none, true).bias) ==
          Values(static_cast<std::size_t>(shape[1]), 0.0));
  }
  CHECK_THROWS_WITH_AS(normalize_rows({}, x.reshape({24})), doctest::Contains("normalize_rows"), ShapeError);
  CHECK_THROWS_AS(normalize_rows({}, x, random_array({4}, DType::f64, 1)), ShapeError);
  CHECK_THROWS_AS(normalize_rows({}, x, random_array({6}, DType::f32, 1)), DTypeError);
  CHECK_THROWS_AS(normalize_rows({}, x.cast(DType::i32)), DTypeError);
}
