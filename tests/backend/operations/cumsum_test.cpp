// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu_threads.h>
#include <tutti/backend/error.h>
#include <tutti/backend/operations.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace tutti {
namespace {

template <class T> Array counted(const Shape& shape) {
  std::vector<T> values(static_cast<std::size_t>(element_count(shape)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(static_cast<int>(i * 7 % 23) - 9);
  return Array::from(values, shape, test_device());
}

TEST_CASE_TEMPLATE("cumsum along each axis, from both ends", T, float, double, std::int32_t, std::int64_t) {
  for (const Shape& shape : {Shape{3, 4, 5}, Shape{2, 1500}, Shape{1}, Shape{1100, 2}})
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      const Array x = counted<T>(shape);
      const auto values = x.to_vector<T>();
      const auto forward = cumsum(x, static_cast<std::int64_t>(axis)).template to_vector<T>();
      const auto backward = cumsum(x, static_cast<std::int64_t>(axis), true).template to_vector<T>();
      const auto stride = static_cast<std::size_t>(contiguous_strides(shape)[axis]);
      const auto length = static_cast<std::size_t>(shape[axis]);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::size_t place = i / stride % length;
        const T before = place == 0 ? T(0) : forward[i - stride];
        const T behind = place == length - 1 ? T(0) : backward[i + stride];
        wrong += forward[i] == before + values[i] && backward[i] == behind + values[i] ? 0 : 1;
      }
      CAPTURE(to_string(shape));
      CHECK(wrong == 0);
    }
}

TEST_CASE("cumsum of views, of nothing, of narrow types, and wrapping") {
  const Array x = counted<float>({4, 6});
  CHECK(cumsum(x.transpose(), 0).to_vector<float>() == cumsum(x, 1).transpose().contiguous().to_vector<float>());
  CHECK(cumsum(Array::zeros({0, 3}, DType::f32, test_device()), 0).size() == 0);
  CHECK(
      cumsum(Array::full({300}, 1, DType::bf16, test_device()), 0).slice(0, 255, 256).cast(DType::f32).item<float>() ==
      256);
  CHECK(cumsum(Array::full({3}, 100, DType::u8, test_device()), 0).to_vector<std::uint8_t>()[2] == 44);
  constexpr auto kMost = std::numeric_limits<std::int32_t>::max();
  CHECK(cumsum(Array::full({2}, kMost, DType::i32, test_device()), 0).to_vector<std::int32_t>()[1] == -2);
  CHECK_THROWS_WITH_AS(cumsum(x, 2), doctest::Contains("[cumsum]"), ShapeError);
  CHECK_THROWS_WITH_AS(cumsum(x.cast(DType::boolean), 0), doctest::Contains("[cumsum]"), DTypeError);
}

void check_running_arg(const Array& x, std::size_t axis) {
  CAPTURE(to_string(x.shape()));
  CAPTURE(to_string(x.dtype()));
  CAPTURE(axis);
  const Shape& shape = x.shape();
  const auto values = x.cast(DType::f64).to_vector<double>();
  const auto stride = static_cast<std::size_t>(contiguous_strides(shape)[axis]);
  for (const ArgReduction kind : {ArgReduction::arg_max, ArgReduction::arg_min}) {
    const auto found = running_arg(kind, x, static_cast<std::int64_t>(axis)).to_vector<std::int64_t>();
    REQUIRE(found.size() == values.size());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto place = static_cast<std::int64_t>(i / stride) % shape[axis];
      std::int64_t expected = 0;
      if (place > 0) {
        expected = found[i - stride];
        const double best = values[i - static_cast<std::size_t>(place - expected) * stride];
        const double x_i = values[i];
        if (std::isnan(x_i) || x_i == best || (kind == ArgReduction::arg_max ? x_i > best : x_i < best))
          expected = place;
      }
      wrong += found[i] == expected ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("running_arg: every type, axis and layout, the last of equals and of NaN") {
  for (const DType dtype : kAllDTypes)
    for (const Shape& shape : {Shape{3, 4, 5}, Shape{2, 1500}, Shape{1}, Shape{110, 70}, Shape{2, 0, 3}}) {
      Array x = counted<double>(shape);
      if (is_floating(dtype) && x.size() > 40) x.reshape({x.size()}).slice(0, 5, x.size(), 37).fill(std::nan(""));
      x = x.cast(dtype);
      for (std::size_t axis = 0; axis < shape.size(); ++axis) {
        check_running_arg(x, axis);
        if (x.size() > 0) check_running_arg(x.slice(-1, 0, shape.back(), 2).transpose(0, -1), axis);
      }
    }
  const Array x = counted<float>({4, 6});
  CHECK_THROWS_WITH_AS(running_arg(ArgReduction::arg_max, x, 2), doctest::Contains("[cummax] axis 2"), ShapeError);
  CHECK_THROWS_WITH_AS(running_arg(ArgReduction::arg_min, x, -3), doctest::Contains("[cummin] axis -3"), ShapeError);
}

TEST_CASE("scans do not depend on the number of threads" * doctest::test_suite("cpu")) {
  for (const Shape& shape : {Shape{3, 200, 300}, Shape{1000, 90}})
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      const Array x = counted<float>(shape);
      const auto along = static_cast<std::int64_t>(axis);
      const auto sums = cumsum(x, along, true).to_vector<float>();
      const auto places = running_arg(ArgReduction::arg_min, x, along).to_vector<std::int64_t>();
      set_cpu_threads(cpu(), 3);
      CHECK(cumsum(x, along, true).to_vector<float>() == sums);
      CHECK(running_arg(ArgReduction::arg_min, x, along).to_vector<std::int64_t>() == places);
      set_cpu_threads(cpu(), 1);
    }
}

}  // namespace
}  // namespace tutti
