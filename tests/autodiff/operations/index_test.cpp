// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <limits>
#include <string>

namespace tutti {
namespace {

using Inputs = std::vector<Tensor>;

Values values(const Tensor& x) { return x.to_vector<double>(); }

TEST_CASE("index: positions, ranges, new axes and the ellipsis select what NumPy selects") {
  const Tensor x = counted({3, 4, 5});
  CHECK(values(x[1][2]) == Values{30, 31, 32, 33, 34});
  CHECK(x[{1, 2, 3}].item<double>() == 33);
  CHECK(x[{-1, -1, -1}].item<double>() == 59);
  CHECK(values(x[{all, 1, 0}]) == Values{5, 25, 45});
  CHECK(values(x[{2, range(1, 3), range(0, 5, 2)}]) == Values{45, 47, 49, 50, 52, 54});
  CHECK(x[{2, range(1, 3), range(0, 5, 2)}].shape() == Shape{2, 3});
  CHECK(values(x[{ellipsis, 4}]) == values(x[{all, all, 4}]));
  CHECK(x[{newaxis, ellipsis, newaxis, 0}].shape() == Shape{1, 3, 4, 1});
  CHECK(x[{0, ellipsis}].shape() == Shape{4, 5});
  CHECK(x[{0, 0, 0, ellipsis}].shape() == Shape{});
  CHECK(values(x[{0, 0}]) == values(x[0][0]));
  CHECK(values(counted({6})[{range(none, none, 4)}]) == Values{0, 4});
}

TEST_CASE("index: ranges are cut off at the ends, as Python's are") {
  const Tensor x = counted({5});
  CHECK(values(x[range(2, none)]) == Values{2, 3, 4});
  CHECK(values(x[range(none, -3)]) == Values{0, 1});
  CHECK(values(x[range(-2, 100)]) == Values{3, 4});
  CHECK(values(x[range(-100, 2)]) == Values{0, 1});
  CHECK(x[range(4, 2)].shape() == Shape{0});
  CHECK(x[range(7, 9)].shape() == Shape{0});
  CHECK(values(x[range(1, 5, 10)]) == Values{1});
}

TEST_CASE("index: a view shares the storage, and views of views compose") {
  const Tensor x = counted({4, 6});
  const Tensor view = transpose(x)[{range(1, 6, 2), range(1, none)}];
  CHECK(view.array().storage() == x.array().storage());
  CHECK(values(view) == Values{7, 13, 19, 9, 15, 21, 11, 17, 23});
  CHECK(values(view[{1, range(none, none, 2)}]) == Values{9, 21});
}

TEST_CASE("index: what does not fit is named") {
  const Tensor x = counted({3, 4});
  CHECK_THROWS_WITH_AS((x[{0, 4}]), doctest::Contains("[index] position 4 is outside axis 1 of [3, 4]"), ShapeError);
  CHECK_THROWS_WITH_AS((x[-4]), doctest::Contains("[index] position -4 is outside axis 0 of [3, 4]"), ShapeError);
  CHECK_THROWS_WITH_AS((x[{0, 0, 0}]), doctest::Contains("[index] 3 entries for the 2 axes of [3, 4]"), ShapeError);
  CHECK_THROWS_WITH_AS((x[{ellipsis, ellipsis}]), doctest::Contains("[index] ellipsis stands twice"), ShapeError);
  CHECK_THROWS_WITH_AS((x[range(0, 3, 0)]), doctest::Contains("[index] the step of a range must be positive, got 0"),
                       ShapeError);
  CHECK_THROWS_AS((x[x > 3]), DTypeError);
  CHECK_THROWS_AS((x[x]), DTypeError);
  CHECK_THROWS_AS(x[index({3}, {1})].to_vector<double>(), ShapeError);
}

TEST_CASE("index: gradients go back to where the elements stood") {
  const Tensor x = spread({3, 4, 5}, 1);
  check_gradients([](const Inputs& in) { return in[0][{1, range(0, 3)}]; }, {x});
  check_gradients([](const Inputs& in) { return in[0][{all, range(0, none, 3), newaxis, -1}]; }, {x});
  check_gradients([](const Inputs& in) { return in[0][{2, 3, 4}]; }, {x});
  check_gradients([](const Inputs& in) { return in[0][range(2, 2)]; }, {x});
  check_gradients([](const Inputs& in) { return transpose(in[0], 0, 2)[{range(1, 4, 2), 0}]; }, {x});
  const Tensor y = leaf({1, 2, 3, 4});
  backward(sum(y[range(0, 3)] * y[range(1, 4)]));
  CHECK(y.grad().to_vector<double>() == Values{2, 4, 6, 3});
}

TEST_CASE("index: gradients of several parts of a tensor are added where they stand, whoever else holds them") {
  const Tensor factors = constant({1, 2, 3, 4, 5, 6, 7, 8}, {2, 4});
  const auto loss = [&](const Tensor& x) {
    const Tensor left = slice(x, 1, 0, 3);
    const Tensor right = slice(x, 1, 1, 4);  // two columns of both
    return sum(left * slice(factors, 1, 0, 3)) + sum(square(right)) + sum(x[1]) + sum(x * 0.5);
  };
  const Tensor x = leaf({1, -2, 3, -4, 5, -6, 7, -8}, {2, 4});
  const Tensor twice = x * 2.0;  // a node, and a leaf
  const Values expected{1.5, -1.5, 9.5, -7.5, 6.5, -4.5, 22.5, -14.5};
  CHECK(grad(loss(x), {x})[0].to_vector<double>() == expected);
  Values of_twice;
  for (std::size_t i = 0; i < 8; ++i) {
    const double value = 2 * x.to_vector<double>()[i];
    of_twice.push_back(2 * (expected[i] + (i % 4 > 0 ? 2 * (value - value / 2) : 0)));
  }
  CHECK(grad(loss(twice), {x})[0].to_vector<double>() == of_twice);
  backward(loss(x));
  backward(loss(x));
  for (std::size_t i = 0; i < 8; ++i) CHECK(x.grad().to_vector<double>()[i] == 2 * expected[i]);
  // A hook keeps what reached it; a part that comes later may not change that.
  std::vector<Tensor> seen;
  const Tensor node = x * 1.0;
  const HookHandle hook = node.register_hook([&](const Tensor& gradient) {
    seen.push_back(gradient);
    return Tensor();
  });
  const Tensor both = sum(slice(node, 1, 0, 2)) + sum(slice(node, 1, 2, 4)) * 3.0;
  CHECK(grad(both, {x})[0].to_vector<double>() == Values{1, 1, 3, 3, 1, 1, 3, 3});
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].to_vector<double>() == Values{1, 1, 3, 3, 1, 1, 3, 3});
  check_gradients([&](const std::vector<Tensor>& in) { return loss(in[0] * in[0]); }, {x});
}

TEST_CASE("index, take: positions in a tensor, repeated and from the back") {
  const Tensor x = counted({3, 4});
  CHECK(values(x[index({2, 0, -1}, {3})]) == Values{8, 9, 10, 11, 0, 1, 2, 3, 8, 9, 10, 11});
  CHECK(values(x[{1, index({3, 3, 0}, {3})}]) == Values{7, 7, 4});
  CHECK(x[{all, index({0, 1, 2, 3, 0, 1}, {3, 2}), newaxis}].shape() == Shape{3, 3, 2, 1});
  CHECK(values(x[{range(1, 3), index({1}, {})}]) == Values{5, 9});
  const Tensor narrow(Array::from(std::vector<std::int32_t>{1}, {1}, test_device()));
  CHECK(values(x[narrow]) == Values{4, 5, 6, 7});
  CHECK(values(take(counted({2, 3, 2}), index({2, 0}, {2}), 1)) == Values{4, 5, 0, 1, 10, 11, 6, 7});
  CHECK(values(take(counted({2, 3, 2}), index({-1, 0}, {2}), 1)) == Values{4, 5, 0, 1, 10, 11, 6, 7});
  CHECK(values(take(x, index({-3}, {1}), 0)) == Values{0, 1, 2, 3});
  CHECK(values(take(x, narrow, 1)) == Values{1, 5, 9});
  CHECK_THROWS_WITH_AS(take(x, index({-4}, {1}), 0).to_vector<double>(), doctest::Contains("position -4"), ShapeError);
  CHECK_THROWS_WITH_AS(x[Tensor()], doctest::Contains("[index] a tensor is undefined"), AutodiffError);
  if (test_device().kind == DeviceKind::cpu)  // others know the position alone
    CHECK_THROWS_WITH_AS(take(zeros({3, 2, 4}), index({0, 1, -3, 7}, {2, 2}), 1).to_vector<float>(),
                         doctest::Contains("[take] position -3 at [1, 0] is out of range for 2"), ShapeError);
  CHECK_THROWS_WITH_AS(take(x, x, 0), doctest::Contains("[take] positions are f64"), DTypeError);
  CHECK_THROWS_WITH_AS(take(x, x > 3, 0), doctest::Contains("[take] positions are bool"), DTypeError);

  const Tensor y = spread({4, 3, 2}, 2);
  check_gradients([](const Inputs& in) { return in[0][index({0, 3, 3}, {3})]; }, {y});
  check_gradients([](const Inputs& in) { return in[0][{range(1, 3), index({2, -1, 0, 2}, {2, 2})}]; }, {y});
  check_gradients([](const Inputs& in) { return take(in[0], index({1, -1, 1}, {3}), -1); }, {y});
}

TEST_CASE("slice_assign: replaces the elements, broadcast and in the tensor's dtype") {
  const Tensor x = counted({2, 3});
  const Tensor replaced = slice_assign(x, {all, 1}, Tensor(-1));
  CHECK(values(replaced) == Values{0, -1, 2, 3, -1, 5});
  CHECK(values(x) == values(counted({2, 3})));
  CHECK(values(slice_assign(x, {0}, constant({7, 8, 9}, {3}))) == Values{7, 8, 9, 3, 4, 5});
  CHECK(values(slice_assign(x, {range(1, 1)}, Tensor(5))) == values(x));
  const Tensor whole(Array::from(std::vector<std::int64_t>{1, 2, 3}, {3}, test_device()));
  CHECK(slice_assign(whole, {0}, Tensor(2.9)).to_vector<std::int64_t>() == std::vector<std::int64_t>{2, 2, 3});
  CHECK_THROWS_AS(slice_assign(x, {0}, constant({1, 2}, {2})), ShapeError);
  CHECK_THROWS_AS(slice_assign(x, {x}, Tensor(1)), DTypeError);
  CHECK_THROWS_WITH_AS(slice_assign(x, {index({2}, {1})}, 1).to_vector<double>(),
                       doctest::Contains(index_error("[slice_assign] position 2")), ShapeError);

  const Tensor y = spread({3, 4}, 3);
  check_gradients(
      [](const Inputs& in) {
        return slice_assign(in[0], {range(0, 2), range(1, 4, 2)}, in[1]);
      },
      {y, spread({2, 2}, 4)});
  check_gradients([](const Inputs& in) { return slice_assign(in[0], {all, 2}, in[1]) * in[0]; }, {y, spread({3}, 5)});
}

// Figures are NumPy's.
TEST_CASE("index: several tensors select element by element, broadcast against each other") {
  const Tensor x = counted({3, 4, 5});
  const Tensor rows = index({0, 2, -1}, {3});
  const Tensor columns(Array::from(std::vector<std::int8_t>{1, -1, 0}, {3}, test_device()));
  CHECK(values(counted({3, 4})[{rows, columns}]) == Values{1, 11, 8});
  CHECK(values(x[{rows, columns, 2}]) == Values{7, 57, 42});
  CHECK(values(x[{rows, columns, index({4}, {})}]) == Values{9, 59, 44});
  CHECK(values(x[{index({2, 0}, {2, 1}), index({1, 3}, {1, 2}), 0}]) == Values{45, 55, 5, 15});
  CHECK(x[{index({2, 0}, {2, 1}), index({1, 3, 0}, {1, 3})}].shape() == Shape{2, 3, 5});
  CHECK(x[{all, rows, columns}].shape() == Shape{3, 3});
  CHECK(values(x[{range(0, 2), index({0, 3}, {2}), index({-1, 0}, {2})}]) == Values{4, 15, 24, 35});
  CHECK(values(x[{1, rows, columns}]) == Values{21, 34, 35});
  CHECK(values(transpose(x, 0, 2)[{index({0, 4}, {2}), 1, index({2, 0}, {2})}]) == Values{45, 9});
  CHECK(x[{index({}, {0}), index({}, {0})}].shape() == Shape{0, 5});
}

TEST_CASE("index: of tensors with other axes between them the positions come first") {
  const Tensor x = counted({3, 4, 5});
  const Tensor first = index({0, 2}, {2});
  const Tensor last = index({4, -5}, {2});
  CHECK(x[{first, all, last}].shape() == Shape{2, 4});
  CHECK(values(x[{first, all, last}]) == Values{4, 9, 14, 19, 40, 45, 50, 55});
  CHECK(x[{first, newaxis, index({3, 0}, {2})}].shape() == Shape{2, 1, 5});
  CHECK(x[{newaxis, first, range(1, 3), last}].shape() == Shape{2, 1, 2});
  CHECK(values(x[{newaxis, first, range(1, 3), last}]) == Values{9, 14, 45, 50});
}

TEST_CASE("index: several tensors, of which one is wrong") {
  const Tensor x = counted({3, 4});
  CHECK_THROWS_WITH_AS((x[{index({0, 1}, {2}), index({0, 1, 2}, {3})}]), doctest::Contains("[index]"), ShapeError);
  CHECK_THROWS_WITH_AS((x[{index({3}, {1}), index({0}, {1})}].to_vector<double>()),
                       doctest::Contains(index_error("[index] position 3")), ShapeError);
  CHECK_THROWS_WITH_AS((x[{index({0}, {1}), index({-5}, {1})}].to_vector<double>()),
                       doctest::Contains(index_error("[index] position -5")), ShapeError);
  CHECK_THROWS_AS((x[{index({0}, {1}), x > 3}]), DTypeError);
  CHECK_THROWS_AS((x[{index({0}, {1}), x}]), DTypeError);
}

TEST_CASE("index: gradients of elements that several tensors select") {
  const Tensor x = spread({3, 4, 2}, 8);
  check_gradients([](const Inputs& in) { return in[0][{index({0, 2, 2}, {3}), index({1, -1, 3}, {3})}]; }, {x});
  check_gradients([](const Inputs& in) { return in[0][{index({0, 2}, {2}), all, index({1, 1}, {2})}]; }, {x});
  check_gradients([](const Inputs& in) { return in[0][{all, index({0, 2}, {2, 1}), index({1, 0}, {2})}]; }, {x});
}

TEST_CASE("slice_assign: at positions in tensors the last of several stays, and has the gradient") {
  const Tensor x = counted({3, 4});
  const Tensor rows = index({0, -1, 2}, {3});
  const Tensor columns = index({1, 0, -4}, {3});
  CHECK(values(slice_assign(x, {rows, columns}, constant({-1, -2, -3}, {3}))) ==
        Values{0, -1, 2, 3, 4, 5, 6, 7, -3, 9, 10, 11});
  CHECK(values(slice_assign(x, {index({1, 2}, {2})}, 0)) == Values{0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0});
  CHECK(values(slice_assign(x, {range(0, 2), index({3}, {1})}, 9)) == Values{0, 1, 2, 9, 4, 5, 6, 9, 8, 9, 10, 11});
  check_gradients(
      [](const Inputs& in) {
        return slice_assign(in[0], {index({0, 2}, {2}), index({1, 1}, {2})}, in[1]);
      },
      {spread({3, 4, 2}, 9), spread({2, 2}, 10)});
}

TEST_CASE("index: assigned to, it writes into the variable") {
  const Tensor x = counted({2, 3});
  x[0] = 7;
  x[{all, 1}] = constant({-1, -2}, {2});
  x[1][2] = Tensor(0.5);
  CHECK(values(x) == Values{7, -1, 7, 3, -2, 0.5});
  CHECK_THROWS_WITH_AS(x[index({0}, {1})] = 1, doctest::Contains("x = slice_assign(x, {...}, value)"), AutodiffError);
  CHECK_THROWS_AS((x[index({0}, {1})][0] = 1), AutodiffError);
  CHECK_THROWS_AS((x.transpose()[0] = 1), AutodiffError);
  CHECK_THROWS_WITH_AS((x.transpose() += 1), doctest::Contains("[operator+=] on the left is a copy"), AutodiffError);
  CHECK_THROWS_AS((x + 1) = 1, AutodiffError);
  CHECK_THROWS_WITH_AS(x[0] = constant({1, 2}, {2}), doctest::Contains("[copy_]"), ShapeError);
  CHECK(values(x) == Values{7, -1, 7, 3, -2, 0.5});
  x[0] += 1;
  x[{all, 1}] *= constant({2, 4}, {2});
  x[1] -= x[0];
  x[1][2] /= 3;
  CHECK(values(x) == Values{8, 0, 8, -5, -8, -2.5});
  CHECK_THROWS_AS(x[index({0}, {1})] += 1, AutodiffError);
  CHECK_THROWS_WITH_AS(Tensor(tensor({1, 2}))[0] += 0.5, doctest::Contains("[operator+=]"), AutodiffError);
  const Tensor whole = tensor({1, 2});
  CHECK_THROWS_WITH_AS(whole[0] += 0.5, doctest::Contains("[add_]"), DTypeError);
  const Tensor w = leaf({1, 2, 3});
  CHECK_THROWS_AS(w[0] = 1, AutodiffError);
  CHECK_THROWS_AS(w[0] += 1, AutodiffError);
  {
    const NoGrad no_grad;
    w[0] = 9;
    w[0] += 1;
  }
  CHECK(values(w) == Values{10, 2, 3});
  Tensor shown = x[0];
  shown = counted({1});  // a variable: it names another tensor
  CHECK(values(x) == Values{8, 0, 8, -5, -8, -2.5});
}

TEST_CASE("slice: with a step; outside the axis is an error") {
  const Tensor x = counted({2, 7});
  CHECK(values(x.slice(1, 1, 7, 3)) == Values{1, 4, 8, 11});
  check_gradients([](const Inputs& in) { return slice(in[0], 1, 0, 5, 2); }, {spread({2, 5}, 6)});
  CHECK_THROWS_AS(x.slice(1, 0, 8), ShapeError);
}

TEST_CASE("pad: before and after each axis") {
  const Tensor x = counted({2, 2});
  CHECK(values(pad(x, {{1, 0}, {0, 2}}, -1)) == Values{-1, -1, -1, -1, 0, 1, -1, -1, 2, 3, -1, -1});
  CHECK(pad(x, {{0, 0}, {0, 0}}).shape() == Shape{2, 2});
  CHECK_THROWS_AS(pad(x, {{0, -1}, {0, 0}}), ShapeError);
  CHECK_THROWS_AS(pad(x, {{1, 1}}), ShapeError);
  check_gradients([](const Inputs& in) { return pad(in[0], {{0, 2}, {3, 1}}, 2.5); }, {spread({2, 3}, 7)});
}

TEST_CASE("chains of members read from left to right") {
  const Tensor x = counted({2, 3, 4});
  CHECK(x.slice(2, 0, 2).reshape({3, -1}).transpose().sum(0).shape() == Shape{3});
  CHECK(values(x.permute({2, 0, 1})[0].max(1)) == Values{8, 20});
  CHECK(x.expand_dims(0).squeeze().cast(DType::f32).mean().item<float>() == 11.5F);
  CHECK(x.flatten(1).min(-1).to(test_device()).to_vector<double>() == Values{0, 12});
}

TEST_CASE("index: a step beyond all axes") {
  CHECK(values(counted({3})[range(0, none, std::numeric_limits<std::int64_t>::max())]) == Values{0});
}

TEST_CASE("slice_assign: literals are taken exactly, or refused") {
  const Tensor whole(Array::from(std::vector<std::int64_t>{1, 2, 3}, {3}, test_device()));
  CHECK(slice_assign(whole, {0}, 16777217.0)[0].item<std::int64_t>() == 16777217);
  CHECK(slice_assign(whole, {range(1, 3)}, 7).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 7, 7});
  const Tensor bytes = cast(whole, DType::u8);
  CHECK_THROWS_WITH_AS(slice_assign(bytes, {0}, 300), doctest::Contains("300 is no u8"), DTypeError);
  CHECK_THROWS_WITH_AS(masked_fill(bytes, bytes > 1, -1), doctest::Contains("-1 is no u8"), DTypeError);
  CHECK_THROWS_WITH_AS(slice_assign(whole, {0}, 1e19), doctest::Contains("1e+19 is no i64"), DTypeError);
  CHECK_THROWS_WITH_AS(pad(bytes, {{1, 1}}, 256), doctest::Contains("[pad] 256 is no u8"), DTypeError);
  CHECK_THROWS_WITH_AS((void)(bytes < 256), doctest::Contains("256 is no u8"), DTypeError);
  CHECK((bytes < 255).to_vector<bool>() == std::vector<bool>{true, true, true});
}

}  // namespace
}  // namespace tutti
