// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu_threads.h>
#include <tutti/backend/error.h>
#include <tutti/backend/operations.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace tutti {
namespace {

template <class T> Array random_matrix(const Shape& shape) {
  static std::mt19937 engine(3);
  std::uniform_real_distribution<double> pick(-1, 1);
  std::vector<T> values(static_cast<std::size_t>(element_count(shape)));
  for (T& value : values) value = static_cast<T>(pick(engine));
  return Array::from(values, shape, test_device());
}

/// a b for single matrices, summed in double.
template <class T> std::vector<double> reference(const Array& a, const Array& b) {
  const auto m = static_cast<std::size_t>(a.length(0));
  const auto k = static_cast<std::size_t>(a.length(1));
  const auto n = static_cast<std::size_t>(b.length(1));
  const std::vector<T> lhs = a.to_vector<T>();
  const std::vector<T> rhs = b.to_vector<T>();
  std::vector<double> result(m * n, 0.0);
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t p = 0; p < k; ++p)
      for (std::size_t j = 0; j < n; ++j)
        result[i * n + j] += static_cast<double>(lhs[i * k + p]) * static_cast<double>(rhs[p * n + j]);
  return result;
}

template <class T> void check_product(const Array& a, const Array& b) {
  const std::vector<double> expected = reference<T>(a, b);
  const std::vector<T> found = matmul(a, b).to_vector<T>();
  REQUIRE(found.size() == expected.size());
  const double tolerance = std::numeric_limits<T>::epsilon() * static_cast<double>(2 + a.length(1));
  double worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i)
    worst = std::max(worst, std::abs(static_cast<double>(found[i]) - expected[i]));
  CAPTURE(to_string(a.shape()));
  CAPTURE(to_string(b.shape()));
  CHECK(worst <= tolerance);
}

TEST_CASE_TEMPLATE("products of all sizes and transpositions", T, float, double) {
  constexpr std::int64_t kSizes[][3] = {{1, 1, 1},    {1, 5, 3},    {3, 1, 5},      {5, 3, 1},      {2, 3, 4},
                                        {8, 8, 8},    {16, 16, 16}, {17, 19, 23},   {33, 31, 65},   {64, 100, 10},
                                        {1, 300, 70}, {70, 300, 1}, {129, 65, 100}, {300, 257, 211}};
  for (const auto& [m, k, n] : kSizes)
    for (const bool left : {false, true})
      for (const bool right : {false, true}) {
        const Array a = left ? random_matrix<T>({k, m}).transpose() : random_matrix<T>({m, k});
        const Array b = right ? random_matrix<T>({n, k}).transpose() : random_matrix<T>({k, n});
        check_product<T>(a, b);
      }
}

TEST_CASE_TEMPLATE("products of views", T, float, double) {
  const Array a = random_matrix<T>({40, 60});
  const Array b = random_matrix<T>({60, 50});
  check_product<T>(a.slice(1, 5, 35), b.slice(0, 3, 33));
  check_product<T>(a.slice(0, 1, 39), b.slice(1, 7, 47));
  check_product<T>(a.slice(0, 0, 40, 3), b.slice(1, 0, 50, 2));
  check_product<T>(a.slice(0, 2, 3), b);
  check_product<T>(a, b.slice(1, 4, 5));
  check_product<T>(a.slice(0, 0, 1).broadcast_to({9, 60}), b);
}

TEST_CASE_TEMPLATE("batched products, also of one matrix for all", T, float, double) {
  const Array a = random_matrix<T>({2, 3, 9, 20});
  const Array b = random_matrix<T>({3, 20, 11});
  const Array c = matmul(a, b);
  CHECK(c.shape() == Shape{2, 3, 9, 11});
  const auto part = [](const Array& x, std::int64_t i, std::int64_t j) {
    return x.slice(0, i, i + 1).squeeze(0).slice(0, j, j + 1).squeeze(0);
  };
  for (std::int64_t i = 0; i < 2; ++i)
    for (std::int64_t j = 0; j < 3; ++j) {
      const auto expected = reference<T>(part(a, i, j), b.slice(0, j, j + 1).squeeze(0));
      const auto found = part(c, i, j).template to_vector<T>();
      for (std::size_t e = 0; e < found.size(); ++e)
        CHECK(found[e] == doctest::Approx(expected[e]).epsilon(1e-4).scale(1));
    }
  const Array single = random_matrix<T>({20, 11});
  check_product<T>(matmul(a, single).slice(0, 1, 2).squeeze(0).slice(0, 2, 3).squeeze(0), random_matrix<T>({11, 2}));
  const Array turned = matmul(a, random_matrix<T>({3, 11, 20}).transpose());
  CHECK(turned.shape() == Shape{2, 3, 9, 11});
}

TEST_CASE_TEMPLATE("products do not depend on the number of threads" * doctest::test_suite("cpu"), T, float, double) {
  for (const auto& [a, b] : {std::pair{random_matrix<T>({300, 400}), random_matrix<T>({400, 310})},
                             std::pair{random_matrix<T>({64, 784}), random_matrix<T>({784, 512})},
                             std::pair{random_matrix<T>({12, 40, 30}), random_matrix<T>({12, 30, 50})}}) {
    const std::vector<T> expected = matmul(a, b).template to_vector<T>();
    for (const int threads : {2, 3}) {
      set_cpu_threads(cpu(), threads);
      const std::vector<T> found = matmul(a, b).template to_vector<T>();
      CHECK(std::memcmp(found.data(), expected.data(), expected.size() * sizeof(T)) == 0);
    }
    set_cpu_threads(cpu(), 1);
  }
}

TEST_CASE_TEMPLATE("linear is product, bias and activation one after the other, to the bit", T, float, double) {
  for (const auto& [m, k, n] : {std::array<std::int64_t, 3>{1, 1, 1}, {3, 5, 7}, {64, 100, 33}, {130, 784, 512}}) {
    const Array x = random_matrix<T>({m, k});
    const Array wide = random_matrix<T>({n, k + 3}).slice(1, 1, k + 1);
    const Array bias = random_matrix<T>({2 * n}).slice(0, 0, 2 * n, 2);
    for (const int threads : {1, 3})
      for (const Array& weight : {random_matrix<T>({n, k}), random_matrix<T>({k, n}).transpose(), wide})
        for (const Array& added : {bias, Array()})
          for (const auto activation : {LinearActivation::none, LinearActivation::relu, LinearActivation::gelu}) {
            Array expected = matmul(x, weight.transpose());
            if (added.defined()) expected = apply(elementwise::Add{}, expected, added);
            if (activation == LinearActivation::relu) expected = apply(elementwise::Relu{}, expected);
            if (activation == LinearActivation::gelu) expected = apply(elementwise::Gelu{}, expected);
            set_cpu_threads(cpu(), threads);
            const Array found = linear(x, weight, added, activation);
            set_cpu_threads(cpu(), 1);
            CHECK(found.to_vector<T>() == expected.to_vector<T>());
          }
  }
}

TEST_CASE_TEMPLATE("linear of 16 bits is that of f32, rounded once", S, BFloat16, Float16) {
  // Quarters, whose sums are exact in whatever order.
  const auto quarters = [](const Shape& shape) {
    std::vector<S> values;
    for (const float value : random_matrix<float>(shape).to_vector<float>())
      values.push_back(S(std::round(8 * value) / 4));
    return Array::from(values, shape, test_device());
  };
  const auto wide = [](const Array& x) { return x.defined() ? x.cast(DType::f32) : x; };
  for (const auto& [m, k, n] : {std::array<std::int64_t, 3>{1, 1, 1}, {3, 5, 7}, {64, 101, 33}, {530, 300, 600}}) {
    const Array x = quarters({m, k});
    const Array bias = quarters({2 * n}).slice(0, 0, 2 * n, 2);
    for (const int threads : {1, 3})
      for (const Array& weight : {quarters({n, k}), quarters({k, n}).transpose()})
        for (const Array& added : {bias, Array()})
          for (const auto activation : {LinearActivation::none, LinearActivation::relu, LinearActivation::gelu}) {
            set_cpu_threads(cpu(), threads);
            const Array found = linear(x, weight, added, activation);
            set_cpu_threads(cpu(), 1);
            const Array expected = linear(wide(x), wide(weight), wide(added), activation).cast(dtype_of<S>);
            CHECK(found.to_vector<S>() == expected.to_vector<S>());
          }
  }
}

TEST_CASE("linear: no rows, no features, and NaN") {
  const auto zeros = [](const Shape& shape) { return Array::zeros(shape, DType::f64, test_device()); };
  CHECK(linear(zeros({0, 3}), zeros({2, 3}), zeros({2}), LinearActivation::relu).shape() == Shape{0, 2});
  const Array bias = Array::from(std::vector<double>{-1, 2}, {2}, test_device());
  CHECK(linear(zeros({1, 0}), zeros({2, 0}), bias, LinearActivation::relu).to_vector<double>() ==
        std::vector<double>{0, 2});
  const Array nan = Array::full({1, 3}, std::numeric_limits<double>::quiet_NaN(), DType::f64, test_device());
  CHECK(std::isnan(linear(nan, zeros({1, 3}), {}, LinearActivation::relu).item<double>()));
}

TEST_CASE("linear names operands that do not fit") {
  const auto zeros = [](const Shape& shape, DType dtype = DType::f32) {
    return Array::zeros(shape, dtype, test_device());
  };
  CHECK_THROWS_WITH_AS(linear(zeros({2, 3}), zeros({4, 2})), doctest::Contains("[linear] input [2, 3]"), ShapeError);
  CHECK_THROWS_WITH_AS(linear(zeros({2, 3}), zeros({4, 3}), zeros({3})), doctest::Contains("the bias"), ShapeError);
  CHECK_THROWS_WITH_AS(linear(zeros({3}), zeros({4, 3})), doctest::Contains("the input"), ShapeError);
  CHECK_THROWS_AS(linear(zeros({2, 3}), zeros({4, 3}), zeros({4}, DType::f64)), DTypeError);
  CHECK_THROWS_AS(linear(zeros({2, 3}, DType::i64), zeros({4, 3}, DType::i64)), DTypeError);
}

}  // namespace
}  // namespace tutti
