// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

namespace tutti {
namespace {

using Inputs = std::vector<Tensor>;

TEST_CASE("reshape, flatten: values stay in order, gradients go back") {
  const Tensor x = spread({2, 3, 4}, 1);
  check_gradients([](const Inputs& in) { return reshape(in[0], {4, -1}); }, {x});
  check_gradients([](const Inputs& in) { return flatten(in[0], 1); }, {x});
  check_gradients([](const Inputs& in) { return reshape(transpose(in[0], 0, 2), {6, 4}); }, {x});
  CHECK(flatten(x).shape() == Shape{24});
  CHECK(x.flatten().to_vector<double>() == x.to_vector<double>());
  CHECK(flatten(x, 1).shape() == Shape{2, 12});
  CHECK(flatten(x, -1).shape() == x.shape());
  CHECK(flatten(leaf({5}, {})).shape() == Shape{1});
  CHECK(flatten(leaf({}, {2, 0})).shape() == Shape{0});
  CHECK_THROWS_WITH_AS(flatten(x, 3), doctest::Contains("[flatten]"), ShapeError);
  CHECK_THROWS_AS(reshape(x, {5, 5}), ShapeError);
}

TEST_CASE("permute, transpose: each order of three axes") {
  const Tensor x = spread({2, 3, 4}, 2);
  check_gradients([](const Inputs& in) { return permute(in[0], {0, 2, 1}); }, {x});
  check_gradients([](const Inputs& in) { return permute(in[0], {1, 0, 2}); }, {x});
  check_gradients([](const Inputs& in) { return permute(in[0], {1, 2, 0}); }, {x});
  check_gradients([](const Inputs& in) { return permute(in[0], {2, 0, 1}); }, {x});
  check_gradients([](const Inputs& in) { return permute(in[0], {-1, -2, -3}); }, {x});
  check_gradients([](const Inputs& in) { return transpose(in[0]); }, {x});
  CHECK(permute(x, {2, 0, 1}).shape() == Shape{4, 2, 3});
  CHECK_THROWS_AS(permute(x, {0, 1}), ShapeError);
  CHECK_THROWS_AS(permute(x, {0, 1, 1}), ShapeError);
}

TEST_CASE("broadcast_to, sum_to: each is the other's gradient") {
  const Tensor x = spread({2, 1, 3}, 3);
  check_gradients([](const Inputs& in) { return broadcast_to(in[0], {4, 2, 5, 3}); }, {x});
  check_gradients([](const Inputs& in) { return broadcast_to(in[0], {2, 0, 3}); }, {x});
  check_gradients([](const Inputs& in) { return sum_to(in[0], {1, 1}); }, {x});
  check_gradients([](const Inputs& in) { return sum_to(in[0], {}); }, {x});
  CHECK(sum_to(constant({1, 2, 3, 4}, {2, 2}), {2, 1}).to_vector<double>() == Values{3, 7});
  CHECK_THROWS_AS(broadcast_to(x, {2, 1, 4}), ShapeError);
}

TEST_CASE("slice: the middle, from the end, and nothing") {
  const Tensor x = spread({3, 5}, 4);
  check_gradients([](const Inputs& in) { return slice(in[0], 1, 1, 4); }, {x});
  check_gradients([](const Inputs& in) { return slice(in[0], 0, -2, 3); }, {x});
  check_gradients([](const Inputs& in) { return slice(in[0], -1, 2, 2); }, {x});
  check_gradients([](const Inputs& in) { return slice(in[0], 1, 0, 3) * slice(in[0], 1, 2, 5); }, {x});
  const Tensor y = leaf({1, 2, 3, 4});
  backward(sum(slice(y, 0, 1, 3) * 5));
  CHECK(y.grad().to_vector<double>() == Values{0, 5, 5, 0});
}

TEST_CASE("concatenate: along each axis, of one tensor twice, and of empty parts") {
  const Tensor a = spread({2, 3}, 1);
  const Tensor b = spread({2, 2}, 2);
  const Tensor empty = leaf({}, {2, 0});
  const auto along = [](std::int64_t axis) { return [axis](const Inputs& in) { return concatenate(in, axis); }; };
  check_gradients(along(1), {a, b});
  check_gradients(along(-1), {b, a.detach(), b});
  check_gradients(along(0), {a, spread({1, 3}, 3)});
  check_gradients(along(1), {a, empty, b});
  const Tensor x = leaf({1, 2});
  const Tensor twice[] = {x, x * 3};
  backward(sum(concatenate(twice, 0)));
  CHECK(x.grad().to_vector<double>() == Values{4, 4});
  const Tensor mixed[] = {index({1}, {1}), Tensor(Array::full({1}, 2, DType::f32, test_device()), true), leaf({0.1})};
  CHECK(concatenate(mixed, 0).to_vector<double>() == Values{1, 2, 0.1});
  backward(sum(concatenate(mixed, 0) * 3));
  CHECK(mixed[1].grad().to_vector<float>() == std::vector<float>{3});
  const Tensor unlike[] = {a, b};
  CHECK_THROWS_WITH_AS(concatenate(unlike, 0), doctest::Contains("concatenate"), ShapeError);
}

TEST_CASE("squeeze, expand_dims, moveaxis: axes of length 1, and another order") {
  const Tensor x = spread({1, 3, 1, 2}, 5);
  CHECK(squeeze(x).shape() == Shape{3, 2});
  CHECK(squeeze(x, 0).shape() == Shape{3, 1, 2});
  CHECK(squeeze(x, {0, -2}).shape() == Shape{3, 2});
  CHECK_THROWS_AS(squeeze(x, 1), ShapeError);
  CHECK(expand_dims(x, -1).shape() == Shape{1, 3, 1, 2, 1});
  CHECK(expand_dims(x, 0).shape() == Shape{1, 1, 3, 1, 2});
  CHECK(moveaxis(x, 1, -1).shape() == Shape{1, 1, 2, 3});
  CHECK(moveaxis(x, 3, 0).shape() == Shape{2, 1, 3, 1});
  check_gradients([](const Inputs& in) { return moveaxis(squeeze(in[0], 2), 2, 1); }, {x});
  check_gradients([](const Inputs& in) { return expand_dims(transpose(in[0]), 2); }, {x});
}

TEST_CASE("tile: the whole, again and again") {
  const Tensor x = constant({1, 2, 3, 4}, {2, 2});
  CHECK(tile(x, {2}).to_vector<double>() == Values{1, 2, 1, 2, 3, 4, 3, 4});
  CHECK(tile(x, {2, 1}).to_vector<double>() == Values{1, 2, 3, 4, 1, 2, 3, 4});
  CHECK(tile(x, {2, 1, 1}).shape() == Shape{2, 2, 2});
  CHECK(tile(x, {0, 1}).shape() == Shape{0, 2});
  CHECK_THROWS_AS(tile(x, {-1}), ShapeError);
  check_gradients([](const Inputs& in) { return tile(in[0], {2, 1, 3}); }, {spread({2, 2}, 1)});
}

TEST_CASE("stack, split: the inverse of each other") {
  const Tensor a = spread({2, 3}, 1);
  const Tensor b = spread({2, 3}, 2);
  const Tensor both[] = {a, b};
  CHECK(stack(both).shape() == Shape{2, 2, 3});
  CHECK(stack(both, -1).shape() == Shape{2, 3, 2});
  CHECK(split(stack(both), 1)[1].to_vector<double>() == b.to_vector<double>());
  const std::vector<Tensor> parts = split(a, 2, 1);
  CHECK(split(a, {1, a.length(1) - 1}, 1)[1].shape() == a.slice(1, 1, a.length(1)).shape());
  REQUIRE(parts.size() == 2);
  CHECK(parts[1].shape() == Shape{2, 1});
  CHECK(concatenate(parts, 1).to_vector<double>() == a.to_vector<double>());
  check_gradients([](const Inputs& in) { return stack(in, 1); }, {a, b});
  check_gradients(
      [](const Inputs& in) {
        const std::int64_t lengths[] = {1, 0, 2};
        const std::vector<Tensor> pieces = split(in[0], lengths, 1);
        return pieces[0] * pieces[2] + sum(pieces[1]);
      },
      {a});
  const std::vector<Tensor> of_nothing = split(slice(a, 1, 0, 0), 2, 1);
  REQUIRE(of_nothing.size() == 1);
  CHECK(of_nothing[0].shape() == Shape{2, 0});
  const std::int64_t short_of[] = {1, 1};
  CHECK_THROWS_AS(split(a, short_of, 1), ShapeError);
  CHECK_THROWS_AS(split(a, 0), ShapeError);
  const Tensor unlike[] = {a, spread({3, 2}, 3)};
  CHECK_THROWS_AS(stack(unlike), ShapeError);
}

TEST_CASE("diagonal, tril, triu: above, on and below") {
  const Tensor x = constant({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {3, 4});
  CHECK(diagonal(x).to_vector<double>() == Values{0, 5, 10});
  CHECK(diagonal(x, 2).to_vector<double>() == Values{2, 7});
  CHECK(diagonal(x, -2).to_vector<double>() == Values{8});
  CHECK(diagonal(x, 9).shape() == Shape{0});
  CHECK(diagonal(spread({2, 3, 4}, 1), 0, 2, 0).shape() == Shape{3, 2});
  CHECK_THROWS_AS(diagonal(x, 0, 1, -1), ShapeError);
  CHECK(tril(x).to_vector<double>() == Values{0, 0, 0, 0, 4, 5, 0, 0, 8, 9, 10, 0});
  CHECK(triu(x, 1).to_vector<double>() == Values{0, 1, 2, 3, 0, 0, 6, 7, 0, 0, 0, 11});
  CHECK(tril(x, -1).to_vector<double>() == Values{0, 0, 0, 0, 4, 0, 0, 0, 8, 9, 0, 0});
  CHECK(triu(x > 3).dtype() == DType::boolean);
  const Tensor y = spread({2, 3, 3}, 2);
  check_gradients([](const Inputs& in) { return diagonal(in[0], 1, 1, 2); }, {y});
  check_gradients([](const Inputs& in) { return tril(in[0]) * triu(in[0], -1); }, {y});
}

}  // namespace
}  // namespace tutti
