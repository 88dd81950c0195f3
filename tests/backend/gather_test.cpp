// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu_threads.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/registry.h>

#include <tutti/backend/error.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

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

TEST_CASE("an index out of range names itself, the axis and the length") {
  const Array x = Array::arange(12, DType::f32, test_device()).reshape({3, 4});
  const auto run = [&](std::int64_t bad) { gather(x, 1, places({0, bad, 1}, {3, 1})).to_vector<float>(); };
  CHECK_THROWS_WITH_AS(run(4), doctest::Contains("index 4 is out of range for axis 1 of length 4"), ShapeError);
  CHECK_THROWS_WITH_AS(run(-1), doctest::Contains("index -1 is out of range for axis 1 of length 4"), ShapeError);
  CHECK_THROWS_AS(scatter_add({3, 4}, Array::zeros({3, 1}, DType::f32, test_device()), 1, places({0, 9, 1}, {3, 1}))
                      .to_vector<float>(),
                  ShapeError);
  CHECK_NOTHROW(run(3));
}

TEST_CASE("gather of many rows does not depend on the number of threads" * doctest::test_suite("cpu")) {
  Places index(50'000);
  for (std::size_t i = 0; i < index.size(); ++i) index[i] = static_cast<std::int64_t>(i * 7919 % 10);
  const Array x = Array::arange(500'000, DType::f64, test_device()).reshape({50'000, 10});
  const Array picked = places(index, {50'000, 1});
  const auto expected = gather(x, 1, picked).to_vector<double>();
  for (std::size_t i = 0; i < index.size(); ++i)
    REQUIRE(expected[i] == static_cast<double>(static_cast<std::int64_t>(i) * 10 + index[i]));
  set_cpu_threads(cpu(), 3);
  CHECK(gather(x, 1, picked).to_vector<double>() == expected);
  set_cpu_threads(cpu(), 1);
}

}  // namespace
}  // namespace tutti
