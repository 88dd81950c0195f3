// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/error.h>
#include <tutti/backend/operations.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

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

}  // namespace
}  // namespace tutti
