// SPDX-License-Identifier: Apache-2.0
// Matrices taken apart, as arrays: parts where they are documented to lie, views, defects of batches. Values and
// gradients are tested in tests/autodiff/operations/linear_algebra_test.cpp.
#include <tutti/backend/capture/capture.h>
#include <tutti/backend/cpu_threads.h>
#include <tutti/backend/error.h>
#include <tutti/backend/linear_algebra/linear_algebra.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

namespace tutti {
namespace {

/// Small whole numbers in no order, with a larger diagonal.
template <class T> Array matrices(const Shape& shape) {
  std::vector<T> values(static_cast<std::size_t>(element_count(shape)));
  const auto columns = static_cast<std::size_t>(shape[shape.size() - 1]);
  const auto rows = static_cast<std::size_t>(shape[shape.size() - 2]);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<T>(static_cast<int>(i * 7 % 23) - 9);
    if (i / columns % rows == i % columns) values[i] += T(40);
  }
  return Array::from(values, shape, test_device());
}

template <class T> double distance(const Array& a, const Array& b) {
  REQUIRE(a.shape() == b.shape());
  return static_cast<double>(
      reduce(Reduction::max, apply(elementwise::Abs{}, apply(elementwise::Subtract{}, a, b)), {}).template item<T>());
}

TEST_CASE_TEMPLATE("linear algebra: LU factors of permuted rows, of views too", T, float, double) {
  const double near = sizeof(T) == 4 ? 1e-4 : 1e-12;
  for (const Shape& shape : {Shape{1, 1}, Shape{5, 5}, Shape{2, 3, 4, 4}, Shape{70, 70}}) {
    CAPTURE(to_string(shape));
    const Array a = matrices<T>(shape).transpose();
    const LuFactors found = lu(a);
    const std::int64_t n = a.length(-1);
    const Array row = Array::arange(n, DType::i64, a.device()).expand_dims(1);
    const Array column = Array::arange(n, DType::i64, a.device());
    const Array zero = Array::zeros({}, a.dtype(), a.device());
    const Array upper = where(apply(elementwise::LessEqual{}, row, column), found.factors, zero);
    const Array one = where(apply(elementwise::Equal{}, row, column), Array::full({}, 1, a.dtype(), a.device()), zero);
    const Array lower = where(apply(elementwise::Less{}, column, row), found.factors, one);
    const Array permuted = gather(a, -2, found.permutation.expand_dims(-1).broadcast_to(a.shape()));
    CHECK(distance<T>(matmul(lower, upper), permuted) < near * 40);
    CHECK(found.sign.size() == a.size() / (n * n));
  }
  const Array turned = Array::from(std::vector<T>{0, 1, 1, 0}, {2, 2}, test_device());
  CHECK(lu(turned).permutation.to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 0});
  CHECK(lu(turned).sign.template to_vector<T>() == std::vector<T>{-1});
}

TEST_CASE("linear algebra: parts lie one below the other") {
  const Array wide = matrices<double>({2, 3, 5});
  const Array tall = wide.transpose();
  CHECK(factorize(Factorization::svd, wide).shape() == Shape{2, 9, 3});
  CHECK(factorize(Factorization::svd, tall).shape() == Shape{2, 9, 3});
  CHECK(factorize(Factorization::singular_values, wide).shape() == Shape{2, 1, 3});
  const Array parts = factorize(Factorization::qr, tall);
  CHECK(parts.shape() == Shape{2, 8, 3});
  CHECK(distance<double>(matmul(parts.slice(-2, 0, 5), parts.slice(-2, 5, 8)), tall) < 1e-12);
  CHECK_THROWS_WITH_AS(factorize(Factorization::qr, wide), doctest::Contains("[qr]"), ShapeError);
  CHECK_THROWS_WITH_AS(factorize(Factorization::eigh, wide), doctest::Contains("[eigh]"), ShapeError);
}

TEST_CASE("linear algebra: other types and shapes are refused") {
  for (const DType dtype : {DType::bf16, DType::i64, DType::boolean}) {
    const Array x = Array::zeros({2, 2}, dtype, test_device());
    CHECK_THROWS_WITH_AS(factorize(Factorization::cholesky, x), doctest::Contains("[cholesky] takes f32 or f64"),
                         DTypeError);
    CHECK_THROWS_WITH_AS(lu(x), doctest::Contains("[lu] takes f32 or f64"), DTypeError);
    CHECK_THROWS_WITH_AS(solve(x, x), doctest::Contains("[solve] takes f32 or f64"), DTypeError);
  }
  const Array x = matrices<float>({2, 3, 3});
  CHECK_THROWS_AS(solve(x, matrices<float>({3, 3, 3})), ShapeError);
  CHECK_THROWS_AS(solve_triangular({}, x, matrices<float>({2, 2, 3})), ShapeError);
  CHECK_THROWS_AS(solve_triangular({}, x, matrices<double>({2, 3, 3})), DTypeError);
}

TEST_CASE("linear algebra: a tape does the same with other matrices, and finds those that are singular") {
  const auto results_of = [](const Array& a) {
    const LuFactors factors = lu(a);
    std::vector<Array> results{solve(a, a.transpose()), factors.factors, factors.sign};
    for (const auto kind : {Factorization::qr, Factorization::svd, Factorization::eigh})
      results.push_back(factorize(kind, a));
    return results;
  };
  Array a = matrices<double>({2, 4, 4});
  const std::vector<Array> kept = results_of(a);
  Capture capture(test_device());
  {
    const CaptureScope scope(capture);
    const std::vector<Array> results = results_of(a);
    for (std::size_t i = 0; i < kept.size(); ++i) Array(kept[i]).copy_from(results[i]);
  }
  const Array other = matrices<double>({2, 4, 4}).transpose().copy();
  a.copy_from(other);
  capture.begin_replay();
  capture.run(0, capture.tape().size());
  const std::vector<Array> expected = results_of(other);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    CAPTURE(i);
    CHECK(kept[i].to_vector<double>() == expected[i].to_vector<double>());
  }
  a.fill(0);
  capture.begin_replay();
  const auto replay = [&] {
    capture.run(0, capture.tape().size());
    synchronize(test_device());
  };
  CHECK_THROWS_AS(replay(), LinearAlgebraError);
}

TEST_SUITE_BEGIN("cpu");

TEST_CASE("linear algebra: any number of threads gives the same bits, and the first defect") {
  const Array many = matrices<double>({500, 12, 12});
  const Array defective = many.copy();
  defective.slice(0, 77, 78).fill(0);
  defective.slice(0, 400, 401).fill(0);
  const auto one = factorize(Factorization::svd, many).to_vector<double>();
  const auto solved = solve(many, many).to_vector<double>();
  set_cpu_threads(cpu(), 4);
  CHECK(factorize(Factorization::svd, many).to_vector<double>() == one);
  CHECK(solve(many, many).to_vector<double>() == solved);
  for (int i = 0; i < 20; ++i)
    CHECK_THROWS_WITH_AS(solve(defective, many).to_vector<double>(),
                         "[solve] matrix [77] of [500, 12, 12] is singular: pivot 0 is 0", LinearAlgebraError);
  set_cpu_threads(cpu(), 1);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tutti
