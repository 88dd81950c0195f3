// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu_threads.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/registry.h>

#include <tutti/backend/error.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace tutti {
namespace {

using Places = std::vector<std::int64_t>;
using Floats = std::vector<float>;

Array places(Places values, const Shape& shape) { return Array::from(values, shape, test_device()); }

TEST_CASE("gather picks along each axis") {
  const Array x = Array::arange(12, DType::f32, test_device()).reshape({3, 4});
  CHECK(gather(x, 1, places({3, 0, 1}, {3, 1})).to_vector<float>() == Floats{3, 4, 9});
  CHECK(gather(x, 0, places({2, 0, 1, 1}, {1, 4})).to_vector<float>() == Floats{8, 1, 6, 7});
  CHECK(gather(x, 1, places({0, 0, 3, 2, 1, 0}, {2, 3})).to_vector<float>() == Floats{0, 0, 3, 6, 5, 4});
  const Array deep = Array::arange(24, DType::i64, test_device()).reshape({2, 3, 4});
  CHECK(gather(deep, 1, places({2, 0, 1, 1}, {2, 1, 2})).to_vector<std::int64_t>() == Places{8, 1, 16, 17});
}

TEST_CASE("scatter_add is the transpose of gather") {
  const Array index = places({1, 1, 3, 0, 0, 0}, {2, 3});
  const Array updates = Array::from(Floats{1, 2, 3, 4, 5, 6}, {2, 3}, test_device());
  CHECK(scatter_add({2, 4}, updates, 1, index).to_vector<float>() == Floats{0, 3, 0, 3, 15, 0, 0, 0});
  CHECK(scatter_add({2, 3}, updates, 0, places({0, 1, 1, 1, 0, 1}, {2, 3})).to_vector<float>() ==
        Floats{1, 5, 0, 4, 2, 9});
}

TEST_CASE("scatter sets the last of several, multiplies, and chooses") {
  const Array x = Array::from(Floats{2, 3, 4, 5, 6, 7, 8, 9}, {2, 4}, test_device());
  const Array index = places({1, 1, 3, 0, 0, 0}, {2, 3});
  const Array updates = Array::from(Floats{1, 2, 3, 4, 9, 6}, {2, 3}, test_device());
  const auto scattered = [&](Scatter kind) { return scatter(kind, x, 1, index, updates).to_vector<float>(); };
  CHECK(scattered(Scatter::set) == Floats{2, 2, 4, 3, 6, 7, 8, 9});
  CHECK(scattered(Scatter::add) == Floats{2, 6, 4, 8, 25, 7, 8, 9});
  CHECK(scattered(Scatter::prod) == Floats{2, 6, 4, 15, 1296, 7, 8, 9});
  CHECK(scattered(Scatter::max) == Floats{2, 3, 4, 5, 9, 7, 8, 9});
  CHECK(scattered(Scatter::min) == Floats{2, 1, 4, 3, 4, 7, 8, 9});
  CHECK(x.to_vector<float>()[1] == 3);  // a copy is written
  const Array nothing = updates.slice(1, 0, 0);
  CHECK(scatter(Scatter::set, x, 1, places({}, {2, 0}), nothing).to_vector<float>() == x.to_vector<float>());
}

TEST_CASE("scatter of every type") {
  const Array index = places({0, 2, 2, 0}, {4});
  for (const DType dtype : kAllDTypes) {
    const Array x = Array::from(Floats{1, 3, 0}, {3}, test_device()).cast(dtype);
    const Array updates = Array::from(Floats{0, 1, 0, 1}, {4}, test_device()).cast(dtype);
    CAPTURE(to_string(dtype));
    const auto found = [&](Scatter kind) {
      return scatter(kind, x, 0, index, updates).cast(DType::f32).to_vector<float>();
    };
    const float middle = dtype == DType::boolean ? 1 : 3;
    CHECK(found(Scatter::set) == Floats{1, middle, 0});
    if (dtype == DType::boolean) {
      CHECK_THROWS_WITH_AS(found(Scatter::max), doctest::Contains("[scatter]"), DTypeError);
      continue;
    }
    CHECK(found(Scatter::add) == Floats{2, 3, 1});
    CHECK(found(Scatter::prod) == Floats{0, 3, 0});
    CHECK(found(Scatter::max) == Floats{1, 3, 1});
    CHECK(found(Scatter::min) == Floats{0, 3, 0});
  }
}

TEST_CASE("scatter: NaN is larger and smaller than all, and integers wrap") {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  const Array x = Array::from(Floats{kNaN, 1}, {2}, test_device());
  const Array updates = Array::from(Floats{5, kNaN, 7}, {3}, test_device());
  for (const Scatter kind : {Scatter::max, Scatter::min})
    for (const float found : scatter(kind, x, 0, places({0, 1, 1}, {3}), updates).to_vector<float>())
      CHECK(std::isnan(found));
  const Array bytes = Array::full({1}, 100, DType::u8, test_device());
  CHECK(scatter(Scatter::prod, bytes, 0, places({0}, {1}), bytes).to_vector<std::uint8_t>()[0] == 10'000 % 256);
}

TEST_CASE("an index out of range names itself, the axis and the length") {
  const Array x = Array::arange(12, DType::f32, test_device()).reshape({3, 4});
  const auto run = [&](std::int64_t bad) { gather(x, 1, places({0, bad, 1}, {3, 1})).to_vector<float>(); };
  CHECK_THROWS_WITH_AS(run(4), doctest::Contains("index 4 is out of range for axis 1 of length 4"), ShapeError);
  CHECK_THROWS_WITH_AS(run(-1), doctest::Contains("index -1 is out of range for axis 1 of length 4"), ShapeError);
  CHECK_THROWS_AS(scatter_add({3, 4}, Array::zeros({3, 1}, DType::f32, test_device()), 1, places({0, 9, 1}, {3, 1}))
                      .to_vector<float>(),
                  ShapeError);
  const Array column = x.slice(0, 0, 2).slice(1, 0, 1);
  CHECK_THROWS_WITH_AS(scatter(Scatter::set, x, 0, places({0, 3}, {2, 1}), column).to_vector<float>(),
                       doctest::Contains("index 3 is out of range for axis 0 of length 3"), ShapeError);
  CHECK_THROWS_WITH_AS(scatter(Scatter::set, x, 0, places({0, 1}, {2, 1}), x), doctest::Contains("[scatter] "),
                       ShapeError);
  CHECK_THROWS_WITH_AS(scatter(Scatter::set, x, 0, places({0}, {1, 1}), x.slice(0, 0, 1).cast(DType::f64)),
                       doctest::Contains("[scatter] "), DTypeError);
  CHECK_NOTHROW(run(3));
}

TEST_CASE("gather by an index of any strides") {
  const Array x = Array::arange(4 * 5 * 6, DType::i64, test_device()).reshape({4, 5, 6});
  const Array row = places({3, 0, 3, 1}, {4});
  const Array table = places({0, 1, 2, 3, 3, 2, 1, 0, 1, 1, 2, 2}, {3, 4});
  for (std::int64_t axis = 0; axis < 3; ++axis) {
    Shape repeated{4, 5, 6};
    repeated[static_cast<std::size_t>(axis)] = 4;
    Shape along{1, 1, 1};
    along[static_cast<std::size_t>(axis)] = 4;
    Shape shorter = repeated;
    shorter[axis == 0 ? 1 : 0] = 2;
    for (const Array& index : {row.reshape(along).broadcast_to(repeated), row.reshape(along).broadcast_to(shorter),
                               table.transpose().expand_dims(0).broadcast_to({2, 4, 3}).transpose(1, axis == 1 ? 1 : 0),
                               table.slice(1, 0, 4, 2).expand_dims(-1).broadcast_to({3, 2, 6}),
                               table.expand_dims(0).broadcast_to({4, 3, 4})})
      for (const DType dtype : kAllDTypes)
        CHECK(gather(x.cast(dtype), axis, index).cast(DType::i64).to_vector<std::int64_t>() ==
              gather(x.cast(dtype), axis, index.copy()).cast(DType::i64).to_vector<std::int64_t>());
  }
  CHECK(gather(x, 0, row.reshape({4, 1, 1}).broadcast_to({4, 5, 6})).slice(0, 2, 3).to_vector<std::int64_t>() ==
        x.slice(0, 3, 4).to_vector<std::int64_t>());
  CHECK(gather(x, 1, row.slice(0, 0, 0).reshape({1, 0, 1}).broadcast_to({4, 0, 6})).size() == 0);
  for (const std::int64_t beside : {-1, 0}) {
    if (beside < 0 && test_device().kind == DeviceKind::cuda) continue;  // tells any of several
    const Array wrong = places({0, 5, beside}, {3, 1}).broadcast_to({4, 3, 6});
    CHECK_THROWS_WITH_AS(gather(x, 1, wrong).to_vector<std::int64_t>(),
                         doctest::Contains(index_error("[gather] index 5 is out of range for axis 1 of length 5")),
                         ShapeError);
  }
}

TEST_CASE("gather of many rows does not depend on the number of threads" * doctest::test_suite("cpu")) {
  Places index(50'000);
  for (std::size_t i = 0; i < index.size(); ++i) index[i] = static_cast<std::int64_t>(i * 7919 % 10);
  const Array x = Array::arange(500'000, DType::f64, test_device()).reshape({50'000, 10});
  const Array picked = places(index, {50'000, 1});
  const auto expected = gather(x, 1, picked).to_vector<double>();
  for (std::size_t i = 0; i < index.size(); ++i)
    REQUIRE(expected[i] == static_cast<double>(static_cast<std::int64_t>(i) * 10 + index[i]));
  const Array rows = picked.broadcast_to({50'000, 10});
  const auto expected_rows = gather(x, 0, rows).to_vector<double>();
  CHECK(expected_rows == gather(x, 0, rows.copy()).to_vector<double>());
  set_cpu_threads(cpu(), 3);
  CHECK(gather(x, 1, picked).to_vector<double>() == expected);
  CHECK(gather(x, 0, rows).to_vector<double>() == expected_rows);
  set_cpu_threads(cpu(), 1);
}

}  // namespace
}  // namespace tutti
