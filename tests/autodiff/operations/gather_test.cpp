// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace tutti {
namespace {

using Inputs = std::vector<Tensor>;

TEST_CASE("gather, scatter_add: along each axis, with repeated and unused places") {
  const Tensor x = spread({3, 4}, 1);
  const Tensor rows = index({2, 0, 2, 2, 1, 0, 0, 1}, {2, 4});
  const Tensor columns = index({3, 3, 0, 1, 1, 1}, {3, 2});
  check_gradients([&](const Inputs& in) { return gather(in[0], 0, rows); }, {x});
  check_gradients([&](const Inputs& in) { return gather(in[0], 1, columns); }, {x});
  check_gradients([&](const Inputs& in) { return gather(in[0], -1, columns); }, {x});
  check_gradients([&](const Inputs& in) { return scatter_add({3, 4}, in[0], 0, rows); }, {spread({2, 4}, 2)});
  check_gradients([&](const Inputs& in) { return scatter_add({3, 4}, in[0], 1, columns); }, {spread({3, 2}, 3)});
  check_gradients([&](const Inputs& in) { return square(gather(in[0], 1, columns)); }, {x});
  check_gradients([](const Inputs& in) { return gather(in[0], 0, index({}, {0, 4})); }, {x});
}

TEST_CASE("gather: of an empty batch, also by an index that is broadcast to it") {
  const Tensor places = broadcast_to(expand_dims(index({4, 0, -1}, {3}), 0), {0, 3});
  const TensorOptions here{.device = places.device()};
  CHECK(gather(zeros({0, 5}, here), 1, places).shape() == Shape{0, 3});
  CHECK(scatter_add({0, 5}, zeros({0, 3}, here), 1, places).shape() == Shape{0, 5});
}

TEST_CASE("scatter: each kind, with repeated and unused places") {
  const Tensor x = spread({3, 4}, 1);
  const Tensor rows = index({2, 0, 2, 2, 1, 0, 0, 1, 2, 2, 1, 1}, {3, 4});
  const Tensor columns = index({3, 3, 0, 1, 1, 1}, {3, 2});
  for (const Scatter kind : {Scatter::set, Scatter::add, Scatter::prod, Scatter::max, Scatter::min}) {
    CAPTURE(static_cast<int>(kind));
    check_gradients([&](const Inputs& in) { return square(scatter(in[0], 0, rows, in[1], kind)); },
                    {x, spread({3, 4}, 2)});
    check_gradients([&](const Inputs& in) { return square(scatter(in[0], -1, columns, in[1], kind)); },
                    {x, spread({3, 2}, 3)});
  }
}

TEST_CASE("scatter: the last of several is set, and has the gradient") {
  const Tensor x = leaf({1, 2, 3});
  const Tensor updates = leaf({10, 20, 30, 40});
  const Tensor y = scatter(x, 0, index({2, 0, 2, 2}, {4}), updates);
  CHECK(y.to_vector<double>() == Values{20, 2, 40});
  backward(sum(y * constant({5, 6, 7}, {3})));
  CHECK(x.grad().to_vector<double>() == Values{0, 6, 0});
  CHECK(updates.grad().to_vector<double>() == Values{0, 5, 0, 7});
}

TEST_CASE("scatter: gradients of products with zeros, which share none") {
  // Of no zero, one, and two; and x's own.
  const Tensor x = leaf({2, 3, 4, 0});
  const Tensor updates = leaf({5, 7, 0, 6, 0, 0, 8});
  backward(sum(scatter(x, 0, index({0, 0, 1, 1, 2, 2, 3}, {7}), updates, Scatter::prod)));
  CHECK(x.grad().to_vector<double>() == Values{35, 0, 0, 8});
  CHECK(updates.grad().to_vector<double>() == Values{14, 10, 18, 0, 0, 0, 0});
  // Second gradients with one zero, two and three.
  const Tensor places = index({0, 0, 1, 2, 2, 2, 3, 3, 3}, {9});
  gradgradcheck([&](const Inputs& in) { return scatter(in[0], 0, places, in[1], Scatter::prod); },
                {leaf({2, 3, 4, 5}), leaf({0, 6, 4, 0, 7, 0, 0, 0, 0})});
  // Too large a product of the others: 0 with two zeros and three.
  const Tensor ones = leaf({1, 1});
  const Tensor large = leaf({0, 0, 1e200, 1e200, 0, 0, 0, 1e200, 1e200});
  backward(sum(scatter(ones, 0, index({0, 0, 0, 0, 1, 1, 1, 1, 1}, {9}), large, Scatter::prod)));
  CHECK(large.grad().to_vector<double>() == Values{0, 0, 0, 0, 0, 0, 0, 0, 0});
  const Tensor infinite = leaf({0, 0, std::numeric_limits<double>::infinity()});
  backward(sum(scatter(leaf({1}), 0, index({0, 0, 0}, {3}), infinite, Scatter::prod)));
  CHECK(std::isnan(infinite.grad().to_vector<double>()[0]));
}

TEST_CASE("scatter: equal extremes share the gradient, also NaN") {
  const Tensor x = leaf({3, 1, 2});
  const Tensor updates = leaf({3, 3, 5, std::nan("")});
  backward(sum(scatter(x, 0, index({0, 0, 1, 2}, {4}), updates, Scatter::max)));
  CHECK(x.grad().to_vector<double>() == Values{1.0 / 3, 0, 0});
  CHECK(updates.grad().to_vector<double>() == Values{1.0 / 3, 1.0 / 3, 1, 1});
}

TEST_CASE("scatter: literals, other types, bools") {
  const Tensor x = leaf({1, 2, 3});
  CHECK(scatter(x, 0, index({1}, {1}), 7).to_vector<double>() == Values{1, 7, 3});
  CHECK(scatter(x, 0, index({1, 1}, {2}), 2, Scatter::prod).to_vector<double>() == Values{1, 8, 3});
  CHECK(scatter(x, 0, index({1}, {1}), index({9}, {1})).dtype() == DType::f64);
  const Tensor flags = x > 1;
  CHECK(scatter(flags, 0, index({0}, {1}), true).to_vector<bool>() == std::vector<bool>{true, true, true});
  CHECK_THROWS_WITH_AS(scatter(flags, 0, index({0}, {1}), true, Scatter::max), doctest::Contains("[scatter]"),
                       DTypeError);
  const Tensor bytes = cast(index({1}, {1}), DType::u8);
  CHECK_THROWS_WITH_AS(scatter(bytes, 0, index({0}, {1}), 300), doctest::Contains("[scatter] 300 is no u8"),
                       DTypeError);
}

TEST_CASE("gather: a place read twice collects twice") {
  const Tensor x = leaf({1, 2, 3});
  backward(sum(gather(x, 0, index({2, 0, 2}, {3})) * constant({10, 20, 30}, {3})));
  CHECK(x.grad().to_vector<double>() == Values{20, 0, 40});
}

TEST_CASE("gather: an index out of range is named") {
  CHECK_THROWS_WITH(gather(spread({3}, 1), 0, index({3}, {1})).to_vector<double>(),
                    doctest::Contains(index_error("[gather] index 3")));
  CHECK_THROWS_WITH(gather(spread({3}, 1), 0, index({-4}, {1})).to_vector<double>(),
                    doctest::Contains(index_error("[gather] index -4")));
  CHECK_THROWS_WITH_AS(scatter_add({3}, leaf({1}), 0, index({-4}, {1})).to_vector<double>(),
                       doctest::Contains(index_error("[scatter_add] index -4")), ShapeError);
  CHECK_THROWS_WITH_AS(scatter(leaf({1}), 0, index({1}, {1}), 5).to_vector<double>(),
                       doctest::Contains(index_error("[scatter] index 1")), ShapeError);
}

TEST_CASE("gather, scatter: indices of any integer type, negative ones from the back") {
  const Tensor x = leaf({1, 2, 3});
  for (const DType dtype : {DType::i64, DType::i32, DType::i8}) {
    const Tensor places = cast(index({-1, 0, -3}, {3}), dtype);
    CHECK(gather(x, 0, places).to_vector<double>() == Values{3, 1, 1});
    CHECK(scatter_add({3}, constant({1, 10, 100}, {3}), 0, places).to_vector<double>() == Values{110, 0, 1});
    CHECK(scatter(x, 0, places, 7).to_vector<double>() == Values{7, 2, 7});
  }
  CHECK(gather(x, -1, cast(index({2, 1}, {2}), DType::u8)).to_vector<double>() == Values{3, 2});
  const Tensor same = broadcast_to(index({-2}, {1, 1}), {2, 1});
  CHECK(gather(constant({1, 2, 3, 4}, {2, 2}), 1, same).to_vector<double>() == Values{1, 3});
  check_gradients([](const std::vector<Tensor>& in) { return gather(in[0], 0, index({-1, 0, -1}, {3})); }, {x});
  CHECK_THROWS_WITH_AS(gather(x, 0, x), doctest::Contains("[gather] positions are f64"), DTypeError);
  CHECK_THROWS_WITH_AS(scatter(x, 0, x > 1, 1), doctest::Contains("[scatter] positions are bool"), DTypeError);
  CHECK_THROWS_AS(embedding(x, index({-1}, {1})).to_vector<double>(), ShapeError);  // no place but a row's number
}

TEST_CASE("gather, scatter_add: positions written to afterwards change no gradient") {
  const Tensor x = leaf({1, 2, 3});
  const Tensor places = index({2, 0}, {2});
  const Tensor both = sum(gather(x, 0, places)) + sum(scatter_add({3}, 2 * x.slice(0, 0, 2), 0, places));
  places.fill_(1);
  backward(both);
  CHECK(x.grad().to_vector<double>() == Values{3, 2, 1});
}

}  // namespace
}  // namespace tutti
