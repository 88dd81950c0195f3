// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/autocast.h>
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace tutti {
namespace {

using Inputs = std::vector<Tensor>;

Tensor identity(std::int64_t n) { return eye(n, {.dtype = DType::f64, .device = test_device()}); }

/// Far from singular: the diagonal outweighs the rest, and no two of its elements are near.
Tensor regular(const Shape& shape, std::uint64_t seed) {
  const std::int64_t n = shape[shape.size() - 1];
  const Tensor steps(Array::arange(n, DType::f64, test_device()));
  const Tensor x = spread(shape, seed).detach() * (1.0 / static_cast<double>(n * n)) + identity(n) * (steps + 1.5);
  return Tensor(x.array(), true);
}

double distance(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  return a.size() == 0 ? 0 : max(abs(a - b)).item<double>();
}

/// The sum of the columns' products, each with a weight of its own: no signs of columns change it.
Tensor joined(const Tensor& a, const Tensor& b) {
  const Tensor steps(Array::arange(a.length(-1), a.dtype(), a.device()));
  return matmul(a * (steps + 1.0), transpose(b));
}

/// What an error says on this run's devices: CUDA's knows the operation, and of the matrix its number alone.
std::string told(const std::string& text) {
  return test_device().kind == DeviceKind::cuda ? text.substr(0, text.find(']') + 1) : text;
}

/// Waits for the result, which may be long in the making.
#define CHECK_DEFECT(call, text)                                                                         \
  CHECK_THROWS_WITH_AS((call).array().copy().to_vector<double>(), doctest::Contains(told(text).c_str()), \
                       LinearAlgebraError)

TEST_CASE("linear algebra: values") {
  const Tensor a = constant({4, 2, 2, 5}, {2, 2});
  CHECK(distance(cholesky(a), constant({2, 0, 1, 2}, {2, 2})) < 1e-15);
  CHECK(determinant(a).item<double>() == doctest::Approx(16));
  CHECK(distance(inverse(a), constant({5 / 16.0, -2 / 16.0, -2 / 16.0, 4 / 16.0}, {2, 2})) < 1e-15);
  CHECK(distance(solve(a, constant({8, 12}, {2})), constant({1, 2}, {2})) < 1e-15);
  CHECK(distance(solve_triangular(a, constant({8, 12}, {2})), constant({2, 1.6}, {2})) < 1e-15);
  CHECK(distance(solve_triangular(a, constant({8, 12}, {2}), {.unit = true}), constant({8, -4}, {2})) < 1e-15);
  CHECK(distance(solve_triangular(a, constant({8, 10}, {2}), {.upper = true}), constant({1, 2}, {2})) < 1e-15);
  const SignAndLog turned = slogdet(constant({0, -3, -3, 0}, {2, 2}));
  CHECK(turned.sign.item<double>() == -1);
  CHECK(turned.logabsdet.item<double>() == doctest::Approx(std::log(9.0)));
  CHECK(distance(svdvals(constant({0, -3, 2, 0}, {2, 2})), constant({3, 2}, {2})) < 1e-15);
  CHECK(distance(eigvalsh(constant({2, 1, 1, 2}, {2, 2})), constant({1, 3}, {2})) < 1e-15);
}

TEST_CASE("linear algebra: factors multiply to the matrix, also to large ones and batches") {
  for (const Shape& shape : {Shape{60, 40}, Shape{40, 60}, Shape{3, 5, 5}, Shape{2, 1, 4, 7}, Shape{1, 1}}) {
    CAPTURE(to_string(shape));
    const Tensor a = spread(shape, 1).detach();
    const double near = 1e-12 * max(abs(a)).item<double>();
    const Qr qr_of = qr(a);
    CHECK(distance(matmul(qr_of.q, qr_of.r), a) < near * 10);
    CHECK(distance(triu(qr_of.r), qr_of.r) == 0);
    const Svd svd_of = svd(a);
    CHECK(distance(matmul(svd_of.u * expand_dims(svd_of.s, -2), svd_of.vh), a) < near * 10);
    CHECK(distance(svdvals(a), svd_of.s) < near * 10);
    const std::int64_t k = std::min(a.length(-1), a.length(-2));
    for (const Tensor& columns : {qr_of.q, svd_of.u, transpose(svd_of.vh)}) {
      const Tensor product = matmul(transpose(columns), columns);
      CHECK(distance(product, broadcast_to(identity(k), product.shape())) < 1e-12);
    }
    const Tensor symmetric = matmul(a, transpose(a));
    const Eigh eigh_of = eigh(symmetric);
    const double nearer = 1e-12 * max(abs(symmetric)).item<double>();
    CHECK(distance(matmul(eigh_of.vectors * expand_dims(eigh_of.values, -2), transpose(eigh_of.vectors)), symmetric) <
          nearer);
    CHECK(distance(eigvalsh(symmetric), eigh_of.values) < nearer);
    const Tensor positive = symmetric + identity(a.length(-2));
    const Tensor lower = cholesky(positive);
    CHECK(distance(matmul(lower, transpose(lower)), positive) < nearer);
    CHECK(distance(matmul(positive, solve(positive, a)), a) < nearer);
  }
}

TEST_CASE("linear algebra: first and second derivatives") {
  const Tensor a = regular({3, 3}, 1);
  const Tensor many = regular({2, 3, 3}, 2);
  for (const Tensor& x : {a, many}) {
    check_gradients([](const Inputs& in) { return cholesky(in[0]); }, {x});
    check_gradients([](const Inputs& in) { return inverse(in[0]); }, {x});
    check_gradients([](const Inputs& in) { return determinant(in[0]); }, {x});
    check_gradients([](const Inputs& in) { return slogdet(in[0]).logabsdet; }, {x});
    for (const Shape& shape : {Shape{3}, Shape{3, 2}, Shape{2, 3, 1}, Shape{4, 1, 3, 2}}) {
      const Tensor right = spread(shape, 3);
      check_gradients([](const Inputs& in) { return solve(in[0], in[1]); }, {x, right});
      for (const bool upper : {false, true})
        for (const bool unit : {false, true})
          check_gradients([=](const Inputs& in) { return solve_triangular(in[0], in[1], {upper, unit}); }, {x, right});
    }
    check_gradients(
        [](const Inputs& in) {
          const Eigh found = eigh(in[0]);
          return joined(found.vectors, found.vectors) * sum(found.values);
        },
        {x});
    check_gradients([](const Inputs& in) { return eigvalsh(in[0]); }, {x});
  }
  const std::vector<Tensor> shapes{a, Tensor(slice(a, 0, 0, 2).array().copy(), true),
                                   Tensor(slice(many, 2, 0, 2).array().copy(), true)};
  for (const Tensor& x : shapes) {
    CAPTURE(to_string(x.shape()));
    check_gradients([](const Inputs& in) { return square(qr(in[0]).q); }, {x});
    check_gradients([](const Inputs& in) { return square(qr(in[0]).r); }, {x});
    check_gradients([](const Inputs& in) { return joined(svd(in[0]).u, transpose(svd(in[0]).vh)); }, {x});
    check_gradients([](const Inputs& in) { return joined(svd(in[0]).u, svd(in[0]).u); }, {x});
    check_gradients([](const Inputs& in) { return matmul(transpose(svd(in[0]).vh), svd(in[0]).vh); }, {x});
    check_gradients([](const Inputs& in) { return svdvals(in[0]); }, {x});
  }
}

TEST_CASE("linear algebra: values alone have gradients where they are equal, or 0") {
  const auto gradient = [](Tensor (*f)(const Tensor&), const Tensor& x) {
    const Tensor leaf(x.array(), true);
    return grad(sum(f(leaf)), {leaf})[0];
  };
  const Tensor one = identity(3);
  CHECK(distance(gradient(svdvals, one), one) < 1e-15);
  CHECK(distance(gradient(eigvalsh, one), one) < 1e-15);
  CHECK(distance(gradient([](const Tensor& x) { return svd(x).s; }, one), one) < 1e-15);
  const Tensor zeros_too = constant({2, 0, 0, 0, 0, 0}, {3, 2});
  CHECK(std::isfinite(sum(gradient(svdvals, zeros_too)).item<double>()));
}

TEST_CASE("linear algebra: defects name the operation and the matrix") {
  const Tensor singular = constant({1, 0, 0, 1, 1, 2, 2, 4, 0, 0, 0, 0}, {3, 2, 2});
  const Tensor right = constant({1, 1}, {2});
  CHECK_DEFECT(solve(singular, right), "[solve] matrix [1] of [3, 2, 2] is singular: pivot 1 is 0");
  CHECK_DEFECT(inverse(singular), "[inverse] matrix [1] of [3, 2, 2] is singular: pivot 1 is 0");
  CHECK_DEFECT(inverse(reshape(singular, {1, 3, 2, 2})), "[inverse] matrix [0, 1] of [1, 3, 2, 2] is singular");
  CHECK_DEFECT(solve_triangular(singular, right), "[solve_triangular] matrix [2] of [3, 2, 2] is singular: pivot 0");
  CHECK_DEFECT(solve_triangular(constant({1, 1, 1, 0}, {2, 2}), right),
               "[solve_triangular] the matrix is singular: pivot 1 is 0");
  CHECK(solve_triangular(singular, right, {.unit = true}).to_vector<double>() == Values{1, 1, 1, -1, 1, 1});
  CHECK_DEFECT(cholesky(singular), "[cholesky] matrix [1] of [3, 2, 2] is not positive definite");
  CHECK_DEFECT(cholesky(constant({-1}, {1, 1})), "[cholesky] the matrix is not positive definite");

  CHECK(determinant(singular).to_vector<double>() == Values{1, 0, 0});
  CHECK(slogdet(singular).sign.to_vector<double>() == Values{1, 0, 0});
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(slogdet(singular).logabsdet.to_vector<double>() == Values{0, -infinity, -infinity});
  const Tensor leaf(singular.array(), true);
  CHECK_DEFECT(grad(sum(determinant(leaf)), {leaf})[0], "[determinant] matrix [1] of [3, 2, 2] is singular");
  CHECK_DEFECT(grad(sum(slogdet(leaf).logabsdet), {leaf})[0], "[slogdet] matrix [1] of [3, 2, 2] is singular");
  CHECK_DEFECT(grad(sum(qr(leaf).r), {leaf})[0], "[qr] matrix [2] of [3, 2, 2] is singular");
}

TEST_CASE("linear algebra: what is not finite is refused, or spreads") {
  for (const double odd : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    const Tensor x = constant({1, 0, 0, 1, 1, odd, odd, 3}, {2, 2, 2});
    CHECK_DEFECT(cholesky(x), "[cholesky] matrix [1] of [2, 2, 2] is not positive definite");
    for (const Values& values : {Values{odd, 0, 0, 1}, Values{1, 0, 0, odd}})
      CHECK_DEFECT(cholesky(constant(values, {2, 2})), "[cholesky] the matrix is not positive definite");
    CHECK_DEFECT(svd(x).s, "[svd] matrix [1] of [2, 2, 2] has elements that are not finite");
    CHECK_DEFECT(svdvals(x), "[svdvals] matrix [1] of [2, 2, 2] has elements that are not finite");
    CHECK_DEFECT(eigh(x).values, "[eigh] matrix [1] of [2, 2, 2] has elements that are not finite");
    CHECK_DEFECT(eigvalsh(x), "[eigvalsh] matrix [1] of [2, 2, 2] has elements that are not finite");
    CHECK_FALSE(std::isfinite(determinant(x).to_vector<double>()[1]));
    CHECK_FALSE(std::isfinite(sum(qr(x).r).item<double>()));
  }
  const Tensor right = constant({std::nan(""), 1}, {2});
  const auto x = solve(identity(2), right).to_vector<double>();
  CHECK(std::isnan(x[0]));
}

TEST_CASE("linear algebra: nothing, and batches of nothing") {
  for (const Shape& shape : {Shape{0, 0}, Shape{0, 3, 3}, Shape{2, 0, 0}}) {
    const Tensor x(Array::zeros(shape, DType::f64, test_device()), true);
    CAPTURE(to_string(shape));
    const Shape batch(std::span(shape.data(), shape.size() - 2));
    for (const Tensor& same : {cholesky(x), inverse(x), qr(x).q, qr(x).r, svd(x).u, svd(x).vh, eigh(x).vectors}) {
      CHECK(same.shape() == shape);
      CHECK(grad(sum(same), {x})[0].shape() == shape);
    }
    CHECK(determinant(x).shape() == batch);
    CHECK(distance(determinant(x), ones_like(determinant(x))) == 0);
    CHECK(distance(slogdet(x).sign, ones_like(determinant(x))) == 0);
    CHECK(distance(slogdet(x).logabsdet, zeros_like(determinant(x))) == 0);
    CHECK(grad(sum(determinant(x) + slogdet(x).logabsdet), {x})[0].shape() == shape);
    CHECK(svdvals(x).shape() == eigvalsh(x).shape());
  }
  const Tensor narrow(Array::zeros({4, 0}, DType::f64, test_device()));
  CHECK(qr(narrow).q.shape() == Shape{4, 0});
  CHECK(qr(transpose(narrow)).r.shape() == Shape{0, 4});
  CHECK(svd(narrow).u.shape() == Shape{4, 0});
  CHECK(svd(narrow).vh.shape() == Shape{0, 0});
  CHECK(svd(transpose(narrow)).vh.shape() == Shape{0, 4});
  CHECK(solve(identity(3), Tensor(Array::zeros({3, 0}, DType::f64, test_device()))).shape() == Shape{3, 0});
  CHECK(solve(identity(3), Tensor(Array::zeros({2, 3, 0}, DType::f64, test_device()))).shape() == Shape{2, 3, 0});
}

TEST_CASE("linear algebra: what does not fit is refused") {
  const Tensor wide = constant({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor row = constant({1, 2, 3}, {3});
  for (const auto f : {cholesky, inverse, determinant, eigvalsh}) {
    CHECK_THROWS_WITH_AS(f(wide), doctest::Contains("matrices must be square, not [2, 3]"), ShapeError);
    CHECK_THROWS_WITH_AS(f(row), doctest::Contains("[3] has no rows and columns"), ShapeError);
  }
  CHECK_THROWS_WITH_AS(svdvals(row), doctest::Contains("[svdvals] [3] has no rows"), ShapeError);
  CHECK_THROWS_WITH_AS(qr(row), doctest::Contains("[qr] [3] has no rows"), ShapeError);
  CHECK_THROWS_WITH_AS(solve(identity(2), row), doctest::Contains("[solve] right side [3] does not fit the matrix"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(solve(regular({2, 3, 3}, 1), spread({3, 3, 1}, 1)), doctest::Contains("[solve]"), ShapeError);
  CHECK_THROWS_WITH_AS(solve_triangular(identity(2), constant({1}, {})), doctest::Contains("[solve_triangular]"),
                       ShapeError);
}

TEST_CASE("linear algebra: autocast leaves qr of a wide matrix as it is") {
  const Tensor x = cast(spread({2, 3}, 1).detach(), DType::f32);
  const Tensor expected = qr(x).r;
  const Autocast narrow(DType::bf16);
  CHECK(distance(qr(x).r, expected) == 0);
}

TEST_CASE("linear algebra: other types") {
  const Tensor a = regular({3, 3}, 1);
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Tensor x(a.array().cast(dtype), true);
    CHECK(solve(x, x).dtype() == dtype);
    CHECK(slogdet(x).sign.dtype() == dtype);
    CHECK(svd(x).vh.dtype() == dtype);
    CHECK(eigvalsh(x).dtype() == dtype);
    // Rounded once.
    CHECK(distance(inverse(x), cast(inverse(cast(x, DType::f32)), dtype)) == 0);
    CHECK(grad(sum(qr(x).q), {x})[0].dtype() == dtype);
  }
  const Tensor whole(Array::from(std::vector<std::int64_t>{2, 0, 0, 4}, {2, 2}, test_device()));
  CHECK(inverse(whole).dtype() == DType::f32);
  CHECK(determinant(whole).item<float>() == 8);
  CHECK(solve(whole, constant({1, 1}, {2})).dtype() == DType::f64);
}

}  // namespace
}  // namespace tutti
