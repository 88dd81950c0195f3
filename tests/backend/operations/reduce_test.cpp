// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu_threads.h>
#include <tutti/backend/operations.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace tutti {
namespace {

template <class T> std::vector<T> some_numbers(std::int64_t count) {
  std::mt19937 engine(7);
  std::uniform_int_distribution<int> pick(-1000, 1000);
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& value : values) value = static_cast<T>(pick(engine)) / (std::is_floating_point_v<T> ? T(64) : T(1));
  return values;
}

/// Reduces in double, element by element.
template <class T> std::vector<double> reference(Reduction kind, const Array& input, std::vector<std::int64_t> axes) {
  const std::vector<T> values = input.to_vector<T>();
  Shape kept = input.shape();
  for (const std::int64_t axis : axes) kept[static_cast<std::size_t>(axis)] = 1;
  const Strides strides = contiguous_strides(kept);
  const double start = kind == Reduction::max    ? -std::numeric_limits<double>::infinity()
                       : kind == Reduction::min  ? std::numeric_limits<double>::infinity()
                       : kind == Reduction::prod ? 1.0
                                                 : 0.0;
  std::vector<double> result(static_cast<std::size_t>(element_count(kept)), start);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::int64_t rest = static_cast<std::int64_t>(i);
    std::int64_t place = 0;
    for (std::size_t axis = input.rank(); axis-- > 0;) {
      if (kept[axis] != 1) place += rest % input.shape()[axis] * strides[axis];
      rest /= input.shape()[axis];
    }
    double& target = result[static_cast<std::size_t>(place)];
    const double x = static_cast<double>(values[i]);
    switch (kind) {
      case Reduction::sum: target += x; break;
      case Reduction::sum_of_squares: target += x * x; break;
      case Reduction::max: target = std::max(target, x); break;
      case Reduction::min: target = std::min(target, x); break;
      case Reduction::prod: target *= x; break;
    }
  }
  return result;
}

constexpr Reduction kKinds[] = {Reduction::sum, Reduction::sum_of_squares, Reduction::max, Reduction::min};

template <class T> void check_all_axes(const Array& input) {
  const std::size_t rank = input.rank();
  for (std::size_t chosen = 1; chosen < (std::size_t{1} << rank); ++chosen) {
    std::vector<std::int64_t> axes;
    for (std::size_t axis = 0; axis < rank; ++axis)
      if ((chosen >> axis & 1U) != 0) axes.push_back(static_cast<std::int64_t>(axis));
    for (const Reduction kind : kKinds) {
      const std::vector<T> found = reduce(kind, input, axes).to_vector<T>();
      const std::vector<double> expected = reference<T>(kind, input, axes);
      REQUIRE(found.size() == expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        CAPTURE(to_string(input.shape()));
        CAPTURE(chosen);
        CAPTURE(static_cast<int>(kind));
        const double tolerance = std::is_same_v<T, float> ? 1e-5 : 1e-12;
        CHECK(std::abs(static_cast<double>(found[i]) - expected[i]) <= tolerance * (1000 + std::abs(expected[i])));
      }
    }
  }
}

TEST_CASE_TEMPLATE("reductions over every choice of axes", T, float, double, std::int32_t, std::int64_t) {
  for (const Shape& shape :
       {Shape{1}, Shape{7}, Shape{1000}, Shape{64, 10}, Shape{37, 130}, Shape{3, 5, 8, 8}, Shape{2, 3, 1, 17, 5}}) {
    const Array x = Array::from(some_numbers<T>(element_count(shape)), shape, test_device());
    check_all_axes<T>(x);
  }
}

TEST_CASE("reductions of views") {
  const Array x = Array::from(some_numbers<float>(6 * 8 * 10), {6, 8, 10}, test_device());
  check_all_axes<float>(x.permute({2, 0, 1}));
  check_all_axes<float>(x.slice(2, 1, 9, 2));
  check_all_axes<float>(x.slice(1, 2, 7));
  check_all_axes<float>(x.slice(0, 2, 3).broadcast_to({4, 8, 10}));
}

TEST_CASE_TEMPLATE("products of rows and columns, in segments too", T, float, double, std::int32_t, std::int64_t) {
  for (const Shape& shape : {Shape{7}, Shape{3, 5, 9}, Shape{2, 70'000}, Shape{70'000, 2}}) {
    std::vector<T> values(static_cast<std::size_t>(element_count(shape)), T(1));
    for (std::size_t i = 0; i < values.size(); i += 1 + values.size() / 20)
      values[i] = static_cast<T>(i % 2 == 0 ? -2 : 3);
    const Array x = Array::from(values, shape, test_device());
    for (std::int64_t axis = 0; axis < std::ssize(shape); ++axis) {
      const std::int64_t axes[] = {axis};
      const auto found = reduce(Reduction::prod, x, axes).template to_vector<T>();
      const auto expected = reference<T>(Reduction::prod, x, {axis});
      for (std::size_t i = 0; i < found.size(); ++i) CHECK(static_cast<double>(found[i]) == expected[i]);
    }
  }
  CHECK(reduce(Reduction::prod, Array::zeros({2, 0}, dtype_of<T>, test_device()), {}).template item<T>() == T(1));
}

TEST_CASE("products: narrow ones do not overflow on the way, integers wrap") {
  const Array x = Array::from(std::vector<float>{6e4F, 6e4F, 1e-4F, 1e-4F}, {4}, test_device()).cast(DType::f16);
  CHECK(reduce(Reduction::prod, x, {}).cast(DType::f64).item<double>() == doctest::Approx(36).epsilon(0.01));
  const Array bytes = Array::full({3}, 7, DType::u8, test_device());
  CHECK(reduce(Reduction::prod, bytes, {}).item<std::uint8_t>() == 343 % 256);
}

TEST_CASE("the error of a long sum does not grow with its length") {
  constexpr std::int64_t kCount = 10'000'000;
  const double exact = static_cast<double>(0.1F) * kCount;
  const Array x = Array::full({kCount}, 0.1, DType::f32, test_device());
  CHECK(std::abs(sum(x).item<double>() - exact) <= 1e-6 * exact);
  const std::int64_t first[] = {0};
  const auto columns = sum(x.reshape({kCount / 4, 4}), first).to_vector<float>();
  for (const float column : columns) CHECK(std::abs(column - exact / 4) <= 1e-6 * exact / 4);
}

TEST_CASE("sums do not depend on the number of threads" * doctest::test_suite("cpu")) {
  for (const Shape& shape :
       {Shape{1'000'003}, Shape{200'000, 5}, Shape{3, 70'000}, Shape{64, 32, 20, 20}, Shape{500, 700}}) {
    const Array x = Array::from(some_numbers<float>(element_count(shape)), shape, test_device());
    for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(shape.size()); ++axis) {
      const std::int64_t axes[] = {axis};
      const auto expected = sum(x, axes).to_vector<float>();
      for (const int threads : {2, 3}) {
        set_cpu_threads(cpu(), threads);
        const auto found = sum(x, axes).to_vector<float>();
        CHECK(std::memcmp(found.data(), expected.data(), expected.size() * sizeof(float)) == 0);
      }
      set_cpu_threads(cpu(), 1);
    }
  }
}

TEST_CASE("max and min propagate NaN wherever it stands") {
  for (const std::int64_t length : {1, 5, 16, 40, 100})
    for (std::int64_t at = 0; at < length; ++at) {
      std::vector<float> values(static_cast<std::size_t>(length), 1.0F);
      values[static_cast<std::size_t>(at)] = std::nanf("");
      const Array row = Array::from(values, {length}, test_device());
      CHECK(std::isnan(reduce(Reduction::max, row, {}).item<float>()));
      CHECK(std::isnan(reduce(Reduction::min, row, {}).item<float>()));
      const std::int64_t first[] = {0};
      CHECK(std::isnan(
          reduce(Reduction::max, row.reshape({length, 1}).broadcast_to({length, 3}), first).to_vector<float>()[2]));
    }
  CHECK(
      reduce(Reduction::max, Array::full({70}, -std::numeric_limits<double>::infinity(), DType::f32, test_device()), {})
          .item<float>() == -std::numeric_limits<float>::infinity());
}

TEST_CASE("sums of i32 wrap") {
  const Array x = Array::full({3}, std::numeric_limits<std::int32_t>::max(), DType::i32, test_device());
  CHECK(sum(x).item<std::int32_t>() == std::numeric_limits<std::int32_t>::max() - 2);
}

TEST_CASE("argmax and argmin take the first of equals, and NaN") {
  const float nan = std::nanf("");
  const Array x = Array::from(std::vector<float>{1, 3, 3, 0, 0, 2, nan, 5, nan}, {3, 3}, test_device());
  CHECK(arg_reduce(ArgReduction::arg_max, x, 1).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 2, 0});
  CHECK(arg_reduce(ArgReduction::arg_min, x, 1).to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 0, 0});
  CHECK(arg_reduce(ArgReduction::arg_max, x, 0).to_vector<std::int64_t>() == std::vector<std::int64_t>{2, 2, 2});
  CHECK(arg_reduce(ArgReduction::arg_min, x.transpose(), 0).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{0, 0, 0});
  CHECK(arg_reduce(ArgReduction::arg_max, Array::arange(5000, DType::i64, test_device()), 0).item<std::int64_t>() ==
        4999);
}

}  // namespace
}  // namespace tutti
