// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>

#include <doctest/doctest.h>

namespace tutti {
namespace {

using Inputs = std::vector<Tensor>;
using Whole = std::vector<std::int64_t>;

TEST_CASE("flip, roll: of views and numbers; what is wrong") {
  const Tensor x = constant({1, 2, 3, 4, 5, 6}, {2, 3});
  CHECK(flip(x.transpose(), 0).to_vector<double>() == Values{3, 6, 2, 5, 1, 4});
  CHECK(flip(x).to_vector<double>() == Values{6, 5, 4, 3, 2, 1});
  CHECK(flip(constant({7}, {})).item<double>() == 7);
  CHECK(roll(x, 1, 1).to_vector<double>() == Values{3, 1, 2, 6, 4, 5});
  CHECK(roll(x, -7, 1).to_vector<double>() == Values{2, 3, 1, 5, 6, 4});
  CHECK(roll(x, 2).to_vector<double>() == Values{5, 6, 1, 2, 3, 4});
  CHECK(roll(constant({7}, {}), 2).item<double>() == 7);
  CHECK_THROWS_WITH_AS(flip(x, {0, -2}), doctest::Contains("[flip] axis -2 is named twice"), ShapeError);
  CHECK_THROWS_WITH_AS(roll(x, 1, 2), doctest::Contains("[roll] axis 2"), ShapeError);
}

TEST_CASE("flip: every choice of axes, of views and of every type") {
  for (const DType dtype : kAllDTypes) {
    const Tensor whole(Array::arange(120, DType::i64, test_device()).cast(dtype).reshape({4, 5, 6}));
    for (const Tensor& x : {whole, permute(whole, {2, 0, 1}), slice(whole, 2, 1, 6, 2), slice(whole, 0, 2, 3),
                            broadcast_to(slice(whole, 1, 0, 1), {4, 5, 6})}) {
      const Shape& shape = x.shape();
      for (unsigned chosen = 1; chosen < 8; ++chosen) {
        std::vector<std::int64_t> axes;
        Tensor expected = x;
        for (std::int64_t axis = 0; axis < 3; ++axis) {
          if ((chosen >> axis & 1U) == 0) continue;
          axes.push_back(axis - (axis == 1 ? 3 : 0));
          std::vector<Tensor> parts;
          for (std::int64_t i = shape[static_cast<std::size_t>(axis)]; i-- > 0;)
            parts.push_back(slice(expected, axis, i, i + 1));
          expected = concatenate(parts, axis);
        }
        const Tensor found = flip(x, Axes(axes));
        for (const std::int64_t stride : found.array().strides()) CHECK(stride >= 0);
        CHECK(all_true(found == expected).item<bool>());
        CHECK(found.dtype() == dtype);
      }
    }
  }
}

TEST_CASE("flip: of more than fits into a buffer, of nothing, and its gradients") {
  const Tensor line = arange(0, 100'003, {.dtype = DType::i64, .device = test_device()});
  CHECK(all_true(flip(line) == 100'002 - line).item<bool>());
  CHECK(flip(leaf({}, {2, 0}), 0).shape() == Shape{2, 0});
  CHECK(flip(leaf({}, {2, 0}), 1).shape() == Shape{2, 0});
  for (const auto& axes : {std::vector<std::int64_t>{0}, {-1}, {0, 2}, {}})
    check_gradients([&](const Inputs& in) { return flip(in[0], Axes(axes)) * in[0]; }, {spread({2, 3, 2}, 1)});
}

TEST_CASE("unfold: windows are views, which in place nobody writes to") {
  const Tensor x = constant({1, 2, 3, 4, 5}, {5});
  const Tensor windows = unfold(x, 0, 3, 1);
  CHECK(windows.to_vector<double>() == Values{1, 2, 3, 2, 3, 4, 3, 4, 5});
  CHECK(windows.array().storage() == x.array().storage());
  CHECK_THROWS_WITH_AS(windows.fill_(1), doctest::Contains("one place"), ShapeError);
  unfold(x, 0, 2, 2).fill_(9);  // no two share an element
  CHECK(x.to_vector<double>() == Values{9, 9, 9, 9, 5});
  check_gradients([](const Inputs& in) { return square(unfold(in[0], 1, 5, 2)); }, {spread({2, 9}, 1)});
  for (const auto& [size, step] : {std::pair{6, 1}, {0, 1}, {2, 0}})
    CHECK_THROWS_WITH_AS(unfold(x, 0, size, step), doctest::Contains("[unfold] windows"), ShapeError);
}

TEST_CASE("meshgrid: each type stays, numbers count as one") {
  const auto grids = meshgrid({constant({1, 2}, {2}), index({5, 6, 7}, {3}), constant({4}, {})}, MeshOrder::xy);
  CHECK(grids[0].shape() == Shape{3, 2, 1});
  CHECK(grids[1].to_vector<std::int64_t>() == Whole{5, 5, 6, 6, 7, 7});
  CHECK(grids[2].shape() == Shape{3, 2, 1});
  CHECK(meshgrid({}).empty());
  CHECK_THROWS_WITH_AS(meshgrid({constant({1, 2}, {1, 2})}), doctest::Contains("[meshgrid] coordinates are [1, 2]"),
                       ShapeError);
}

TEST_CASE("repeat_interleave: a number for each position") {
  const Tensor x = spread({2, 3}, 1);
  const Tensor counts = index({2, 0, 1}, {3});
  CHECK(repeat_interleave(x, counts, 1).shape() == Shape{2, 3});
  check_gradients([&](const Inputs& in) { return square(repeat_interleave(in[0], counts, -1)); }, {x});
  CHECK(repeat_interleave(x, index({0, 0}, {2}), 0).shape() == Shape{0, 3});
  for (const Tensor& y : {x, spread({16, 2}, 2)})  // few lines, many
    for (const std::int64_t count : {1, 3, 40})
      for (const std::int64_t axis : {0, -1}) {
        const Tensor nested = expand_dims(y, axis < 0 ? 2 : 1);
        const std::vector<Tensor> copies(static_cast<std::size_t>(count), nested);
        const Tensor found = repeat_interleave(y, count, axis);
        CHECK(all_true(found == reshape(concatenate(copies, axis < 0 ? 2 : 1), found.shape())).item<bool>());
        check_gradients([&](const Inputs& in) { return square(repeat_interleave(in[0], count, axis)); }, {y});
      }
  CHECK(repeat_interleave(leaf({}, {2, 0}), 3, 1).shape() == Shape{2, 0});
  CHECK(repeat_interleave(leaf({}, {0, 2}), 3, 1).shape() == Shape{0, 6});
  const Tensor deep(Array::arange(60, DType::i64, test_device()).reshape({3, 5, 4}));
  for (const Tensor& y : {deep, deep.transpose(0, 2)})
    for (std::int64_t axis = -3; axis < 3; ++axis) {
      std::vector<std::int64_t> times;
      std::vector<Tensor> parts;
      for (std::int64_t i = 0; i < y.length(axis); ++i) {
        times.push_back((i * 2 + 3) % 4);  // 3, 1, 3, 1, ...
        if (i == 1) times.back() = 0;
        for (std::int64_t k = 0; k < times.back(); ++k) parts.push_back(slice(y, axis, i, i + 1));
      }
      const Tensor found = repeat_interleave(y, index(times, {y.length(axis)}), axis);
      CHECK(all_true(found == concatenate(parts, axis)).item<bool>());
    }
  CHECK_THROWS_WITH_AS(repeat_interleave(x, index({3, -1}, {2}), 0),
                       doctest::Contains("[repeat_interleave] -1 repeats"), ShapeError);
  CHECK_THROWS_WITH_AS(repeat_interleave(x, counts, 0), doctest::Contains("[repeat_interleave] counts [3] for axis 0"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(repeat_interleave(x, -1, 0), doctest::Contains("[repeat_interleave] -1 repeats"), ShapeError);
}

TEST_CASE("tensordot, outer, addmm: what does not fit") {
  const Tensor a = constant({1, 2, 3, 4, 5, 6}, {2, 3});
  CHECK(tensordot(a, a).item<double>() == 91);
  CHECK(tensordot(a, a, 0).shape() == Shape{2, 3, 2, 3});
  CHECK_THROWS_WITH_AS(tensordot(a, a, 1), doctest::Contains("[tensordot] axes 1 and 0 have lengths 3 and 2"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(tensordot(a, a, 3), doctest::Contains("[tensordot] 3 axes of [2, 3] and [2, 3]"), ShapeError);
  CHECK_THROWS_WITH_AS(tensordot(a, a, {0, 1}, {0}), doctest::Contains("[tensordot] 2 axes"), ShapeError);
  CHECK_THROWS_WITH_AS(tensordot(a, a, {0, 0}, {0, 1}), doctest::Contains("axis 0 is named twice"), ShapeError);
  CHECK_THROWS_WITH_AS(outer(a, a), doctest::Contains("[outer] [2, 3] and [2, 3]"), ShapeError);
  CHECK_THROWS_WITH_AS(addmm(constant({1, 2}, {2, 1, 1}), a, a.transpose()),
                       doctest::Contains("[addmm] [2, 1, 1] does not fit a product of [2, 2]"), ShapeError);
}

TEST_CASE("addmm: what is scaled is rounded behind it, in the operands' type") {
  const Tensor x = cast(constant({300}, {1, 1}), DType::f16);
  const auto value = [](const Tensor& y) {
    CHECK(y.dtype() == DType::f16);
    return cast(y, DType::f64).item<double>();
  };
  CHECK(value(addmm(x, x, x, 0, 0.1)) == 9000);    // the product is beyond f16
  CHECK(value(addmm(x, x, x, -250, 1)) == 15000);  // both are
  CHECK(value(addmm(x, x, x, 1, 0.1)) == 9296);    // of 9300; the numbers there are 8 apart
  CHECK(value(addmm(x, constant({1}, {1, 1}).cast(DType::f16), x)) == 600);
}

}  // namespace
}  // namespace tutti
