// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/array.h>

#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>

namespace tutti {
namespace {

using Floats = std::vector<float>;

Array counted(const Shape& shape) {
  return Array::arange(element_count(shape), DType::f32, test_device()).reshape(shape);
}

/// What `to_vector` must give, read element by element through shape and strides.
Floats walk(const Array& array) {
  Floats values;
  if (array.size() == 0) return values;
  const auto held = static_cast<std::int64_t>(array.storage()->bytes() / sizeof(float));
  const Floats storage = as_strided(array, {held}, {1}, 0).to_vector<float>();
  Dims position(array.rank(), 0);
  for (std::int64_t i = 0; i < array.size(); ++i) {
    std::int64_t place = array.offset();
    for (std::size_t axis = 0; axis < array.rank(); ++axis) place += position[axis] * array.strides()[axis];
    values.push_back(storage[static_cast<std::size_t>(place)]);
    for (std::size_t axis = array.rank(); axis-- > 0;) {
      if (++position[axis] < array.shape()[axis]) break;
      position[axis] = 0;
    }
  }
  return values;
}

TEST_CASE("arrays are made and read back, in every dtype") {
  CHECK(Array::from<float>({1.5F, -2}, {2}, test_device()).to_vector<float>() == Floats{1.5F, -2});
  CHECK(Array::from<std::int64_t>({1, 2, 3, 4}, {2, 2}, test_device(1)).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{1, 2, 3, 4});
  CHECK(Array::from({true, false, true}, {3}, test_device()).to_vector<bool>() == std::vector<bool>{true, false, true});
  CHECK(Array::full({3}, 2.5, DType::f64, test_device()).to_vector<double>() == std::vector<double>{2.5, 2.5, 2.5});
  CHECK(Array::zeros({2}, DType::i32, test_device()).to_vector<std::int32_t>() == std::vector<std::int32_t>{0, 0});
  CHECK(Array::arange(4, DType::i32, test_device()).to_vector<std::int32_t>() == std::vector<std::int32_t>{0, 1, 2, 3});
  CHECK(Array::full({}, 7, DType::i64, test_device()).item<double>() == 7.0);
  CHECK(Array::full({1, 1}, true, DType::boolean, test_device()).item<bool>());
  CHECK_THROWS_WITH_AS(Array::from<float>({1, 2, 3}, {2}, test_device()), "[from] 3 values do not fill shape [2]",
                       ShapeError);
  CHECK_THROWS_AS(Array::empty({2, -1}, DType::f32, test_device()), ShapeError);
  CHECK(Array::arange(3, DType::i64, test_device(), 5, -4).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{5, 1, -3});
  CHECK_THROWS_AS(Array::arange(3, DType::u8, test_device(), 5, -4), DTypeError);
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  CHECK_THROWS_AS(Array::arange(3, DType::i64, test_device(), kMost - 1), DTypeError);
  CHECK_THROWS_AS(Array::arange(5, DType::i8, test_device(), 0, std::int64_t{1} << 62), DTypeError);
  CHECK(Array::arange(2, DType::i64, test_device(), kMost - 1).to_vector<std::int64_t>()[1] == kMost);
  CHECK_THROWS_AS(Array::arange(-1, DType::f32, test_device()), ShapeError);
  CHECK_THROWS_AS(Array::arange(2, DType::boolean, test_device()), DTypeError);
}

TEST_CASE("an array says what it is") {
  const Array array = Array::empty({2, 3, 4}, DType::f64, test_device(2));
  CHECK(array.rank() == 3);
  CHECK(array.size() == 24);
  CHECK(array.bytes() == 192);
  CHECK(array.length(-1) == 4);
  CHECK(array.length(0) == 2);
  CHECK_THROWS_AS(array.length(3), ShapeError);
  CHECK(array.device() == test_device(2));
  CHECK(array.is_contiguous());
  CHECK(reinterpret_cast<std::uintptr_t>(array.raw_data()) % 64 == 0);
  CHECK_THROWS_WITH_AS(array.data<float>(), as_tested("[data] read as f32, but it is f64 [2, 3, 4] on cpu:2"),
                       DTypeError);
}

TEST_CASE("an undefined array is refused with an error, not a crash") {
  Array undefined;
  CHECK_FALSE(undefined.defined());
  CHECK_THROWS_AS(undefined.to_vector<float>(), Error);
  CHECK_THROWS_AS(undefined.item<float>(), Error);
  CHECK_THROWS_AS(undefined.reshape({1}), Error);
  CHECK_THROWS_AS(undefined.permute({}), Error);
  CHECK_THROWS_AS(undefined.slice(0, 0, 1), Error);
  CHECK_THROWS_AS(undefined.broadcast_to({2}), Error);
  CHECK_THROWS_AS(undefined.copy(), Error);
  CHECK_THROWS_AS(undefined.cast(DType::i32), Error);
  CHECK_THROWS_AS(undefined.to(test_device(1)), Error);
  CHECK_THROWS_AS(undefined.fill(1), Error);
  CHECK_THROWS_AS(undefined.copy_from(Array::zeros({}, DType::f32, test_device())), Error);
}

TEST_CASE("views share the storage and show the right elements") {
  const Array array = counted({2, 3, 4});
  SUBCASE("permute and transpose") {
    const Array view = array.permute({2, 0, -2});
    CHECK(view.shape() == Shape{4, 2, 3});
    CHECK(view.storage() == array.storage());
    CHECK(view.to_vector<float>() == walk(view));
    CHECK(view.to_vector<float>()[1 * 6 + 1 * 3 + 2] == 1 * 12 + 2 * 4 + 1);
    CHECK(array.transpose().shape() == Shape{2, 4, 3});
    CHECK(array.transpose(0, -1).to_vector<float>() == walk(array.permute({2, 1, 0})));
    CHECK_THROWS_AS(array.permute({0, 1}), ShapeError);
    CHECK_THROWS_WITH_AS(array.permute({0, 1, -2}), "[permute] axes [0, 1, -2] do not name each axis of [2, 3, 4] once",
                         ShapeError);
    CHECK_THROWS_AS(array.transpose(0, 3), ShapeError);
  }
  SUBCASE("slice") {
    const Array view = array.slice(1, 1, 3).slice(-1, 0, 4, 3);
    CHECK(view.shape() == Shape{2, 2, 2});
    CHECK(view.to_vector<float>() == Floats{4, 7, 8, 11, 16, 19, 20, 23});
    CHECK(array.slice(2, -3, -1).slice(0, 0, 1).slice(1, 0, 1).to_vector<float>() == Floats{1, 2});
    CHECK(array.slice(0, 1, 1).shape() == Shape{0, 3, 4});
    CHECK(array.slice(0, 2, 2).to_vector<float>().empty());
    CHECK_THROWS_WITH_AS(array.slice(1, 0, 4), "[slice] 0:4:1 does not fit axis 1 of [2, 3, 4]", ShapeError);
    CHECK_THROWS_AS(array.slice(1, 2, 1), ShapeError);
    CHECK_THROWS_AS(array.slice(1, 0, 1, 0), ShapeError);
    CHECK_THROWS_AS(array.slice(1, -4, 1), ShapeError);
  }
  SUBCASE("broadcast") {
    const Array view = array.slice(1, 0, 1).broadcast_to({5, 2, 3, 4});
    CHECK(view.strides() == Strides{0, 12, 0, 1});
    CHECK(view.to_vector<float>() == walk(view));
    CHECK(Array::full({}, 3, DType::f32, test_device()).broadcast_to({2, 2}).to_vector<float>() == Floats{3, 3, 3, 3});
    CHECK(counted({1}).broadcast_to({0}).size() == 0);
    CHECK_THROWS_WITH_AS(array.broadcast_to({3, 4}), "[broadcast_to] shape [2, 3, 4] cannot be broadcast to [3, 4]",
                         ShapeError);
    CHECK_THROWS_AS(array.broadcast_to({2, 3, 5}), ShapeError);
    CHECK_THROWS_AS(counted({}).broadcast_to({std::int64_t{1} << 40, std::int64_t{1} << 40}), ShapeError);
  }
  SUBCASE("squeeze and expand_dims") {
    CHECK(array.expand_dims(0).shape() == Shape{1, 2, 3, 4});
    CHECK(array.expand_dims(-1).shape() == Shape{2, 3, 4, 1});
    CHECK(array.transpose().expand_dims(1).squeeze(1).to_vector<float>() == walk(array.transpose()));
    CHECK_THROWS_AS(array.expand_dims(4), ShapeError);
    CHECK_THROWS_WITH_AS(array.squeeze(1), "[squeeze] axis 1 of [2, 3, 4] does not have length 1", ShapeError);
  }
}

TEST_CASE("reshape is a view where strides allow, and a copy where not") {
  const Array array = counted({4, 6});
  const auto is_view = [&](const Array& view) { return view.storage() == array.storage(); };
  CHECK(is_view(array.reshape({2, 2, 3, 2})));
  CHECK(array.reshape({-1}).shape() == Shape{24});
  CHECK(array.reshape({3, -1, 2}).shape() == Shape{3, 4, 2});

  const Array columns = array.slice(1, 0, 4);  // rows of 4 with a gap of 2
  CHECK(is_view(columns.reshape({2, 2, 4})));
  CHECK(is_view(columns.reshape({4, 2, 1, 2})));
  CHECK_FALSE(is_view(columns.reshape({16})));
  CHECK(columns.reshape({16}).to_vector<float>() == walk(columns));
  CHECK_FALSE(is_view(columns.reshape({8, 2})));
  CHECK_FALSE(is_view(array.transpose().reshape({24})));
  CHECK(array.transpose().reshape({24}).to_vector<float>() == walk(array.transpose()));
  CHECK(is_view(array.transpose().reshape({3, 2, 4})));
  CHECK(array.transpose().reshape({3, 2, 4}).to_vector<float>() == walk(array.transpose()));
  CHECK(is_view(array.slice(1, 0, 1).broadcast_to({4, 6}).reshape({4, 2, 3})));

  CHECK_THROWS_WITH_AS(array.reshape({5, 5}), "[reshape] shape [5, 5] does not hold the elements of [4, 6]",
                       ShapeError);
  CHECK_THROWS_AS(array.reshape({5, -1}), ShapeError);
  CHECK_THROWS_AS(array.reshape({-1, -1}), ShapeError);
  CHECK_THROWS_AS(array.reshape({-2, -12}), ShapeError);
  CHECK_THROWS_AS(counted({0, 3}).reshape({0, -1}), ShapeError);
  CHECK(counted({0, 3}).reshape({5, 0}).shape() == Shape{5, 0});
  CHECK(counted({0, 3}).reshape({-1, 3}).shape() == Shape{0, 3});
}

TEST_CASE("reshape keeps the order of elements for random views") {
  std::mt19937 random(7);
  const std::vector<Shape> targets = {{24},      {2, 12},   {12, 2},    {4, 6},      {3, 8},
                                      {2, 2, 6}, {2, 3, 4}, {1, 24, 1}, {3, 2, 2, 2}};
  for (int round = 0; round < 300; ++round) {
    Array view = counted({2, 3, 2, 2});
    std::vector<std::int64_t> axes(4);
    std::iota(axes.begin(), axes.end(), 0);
    std::shuffle(axes.begin(), axes.end(), random);
    view = view.permute(axes);
    if (random() % 3 == 0) view = view.expand_dims(static_cast<std::int64_t>(random() % 5));
    if (random() % 3 == 0) view = view.reshape(targets[random() % targets.size()]);
    const Array reshaped = view.reshape(targets[random() % targets.size()]);
    CHECK(walk(reshaped) == walk(view));
  }
}

TEST_CASE("rank 0, rank 8 and empty arrays are arrays like others") {
  const Array scalar = Array::full({}, 4, DType::f32, test_device());
  CHECK(scalar.rank() == 0);
  CHECK(scalar.item<float>() == 4);
  CHECK(scalar.permute({}).copy().item<float>() == 4);
  CHECK(scalar.expand_dims(0).reshape({}).item<float>() == 4);
  CHECK_THROWS_AS(scalar.transpose(), ShapeError);

  const Array deep = counted({2, 1, 2, 2, 1, 2, 2, 2});
  CHECK(deep.rank() == 8);
  const Array turned = deep.permute({7, 6, 5, 4, 3, 2, 1, 0});
  CHECK(turned.to_vector<float>() == walk(turned));
  CHECK(turned.contiguous().to_vector<float>() == walk(turned));
  CHECK(deep.squeeze(4).squeeze(1).shape() == Shape{2, 2, 2, 2, 2, 2});

  const Array nothing = Array::zeros({3, 0, 2}, DType::f32, test_device());
  CHECK(nothing.defined());
  CHECK(nothing.size() == 0);
  CHECK(nothing.to_vector<float>().empty());
  CHECK(nothing.transpose().copy().cast(DType::i32).to(test_device(1)).shape() == Shape{3, 2, 0});
  CHECK_THROWS_AS(nothing.item<float>(), ShapeError);
}

TEST_CASE("copies, casts and devices") {
  const Array array = counted({2, 3});
  CHECK(array.contiguous().storage() == array.storage());
  CHECK(array.copy().storage() != array.storage());
  CHECK(array.cast(DType::f32).storage() == array.storage());
  CHECK(array.to(test_device()).storage() == array.storage());
  CHECK(array.transpose().cast(DType::i64).to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 3, 1, 4, 2, 5});
  CHECK(array.cast(DType::boolean).to_vector<bool>() == std::vector<bool>{false, true, true, true, true, true});
  const Array moved = array.transpose().to(test_device(3));
  CHECK(moved.device() == test_device(3));
  CHECK(moved.storage()->device() == test_device(3));
  CHECK(moved.to_vector<float>() == Floats{0, 3, 1, 4, 2, 5});
}

TEST_CASE("writing in place goes through views") {
  Array array = Array::zeros({2, 3}, DType::f32, test_device());
  Array column = array.slice(1, 1, 2);
  column.fill(5);
  CHECK(array.to_vector<float>() == Floats{0, 5, 0, 0, 5, 0});
  Array transposed = array.transpose();
  transposed.copy_from(counted({3, 2}).to(test_device(1)));
  CHECK(array.to_vector<float>() == Floats{0, 2, 4, 1, 3, 5});
  CHECK_THROWS_WITH_AS(array.copy_from(counted({3, 2})),
                       as_tested("[copy_from] shapes differ: f32 [3, 2] on cpu:0 into f32 [2, 3] on cpu:0"),
                       ShapeError);
  CHECK_THROWS_AS(array.copy_from(Array::zeros({2, 3}, DType::f64, test_device())), DTypeError);
}

TEST_CASE("a number that the type does not have is refused, not wrapped") {
  constexpr double kTwoTo63 = 9223372036854775808.0;
  CHECK(Scalar(255).fits(DType::u8));
  CHECK(Scalar(-128.0).fits(DType::i8));
  CHECK(Scalar(true).fits(DType::i8));
  CHECK(Scalar(300).fits(DType::boolean));
  CHECK(Scalar(1e300).fits(DType::f16));
  CHECK(Scalar(255.5).fits(DType::u8));
  CHECK(Scalar(-0.5).fits(DType::u8));
  CHECK(Scalar(-kTwoTo63).fits(DType::i64));
  for (const Scalar& number : {Scalar(256), Scalar(-1), Scalar(-1.5), Scalar(256.0), Scalar(std::nan(""))})
    CHECK_FALSE(number.fits(DType::u8));
  CHECK_FALSE(Scalar(kTwoTo63).fits(DType::i64));
  CHECK_FALSE(Scalar(std::int64_t{1} << 31).fits(DType::i32));
  CHECK_THROWS_WITH_AS(Array::full({2}, 300, DType::u8, test_device()), "[full] 300 is no u8", DTypeError);
  CHECK_THROWS_WITH_AS(Array::full({2}, 3e9, DType::i32, test_device()), "[full] 3000000000 is no i32", DTypeError);
  const auto too_large = std::numeric_limits<std::uint64_t>::max();
  CHECK_THROWS_WITH_AS((void)Scalar{too_large}, "[literal] 18446744073709551615 is no i64", DTypeError);
  Array bytes = Array::full({1}, 7, DType::u8, test_device());
  CHECK_THROWS_WITH_AS(bytes.fill(-1), "[fill] -1 is no u8", DTypeError);
  CHECK(bytes.item<int>() == 7);
  CHECK_THROWS_WITH_AS(Array::arange(257, DType::u8, test_device()), "[arange] 256 is no u8", DTypeError);
  CHECK(Array::arange(256, DType::u8, test_device()).shape() == Shape{256});
}

TEST_CASE("what no machine can hold is an error") {
  const std::int64_t big = std::int64_t{1} << 31;
  CHECK_THROWS_AS(Array::empty({big, big}, DType::f64, test_device()), OutOfMemoryError);
  CHECK_THROWS_AS(Array::empty({big, big, 2}, DType::f32, test_device()), ShapeError);
  CHECK_THROWS_AS(Array::empty({big, big / 2}, DType::boolean, test_device()), OutOfMemoryError);
}

}  // namespace
}  // namespace tutti
