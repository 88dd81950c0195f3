// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/shape.h>

#include <tutti/backend/device.h>
#include <tutti/backend/dtype.h>
#include <tutti/backend/error.h>

#include <doctest/doctest.h>

#include <limits>
#include <sstream>

TEST_SUITE_BEGIN("cpu");

namespace tutti {
namespace {

TEST_CASE("dims keep their elements across the border between inline and heap") {
  Dims dims;
  for (std::int64_t i = 0; i < 10; ++i) {
    dims.push_back(i);
    REQUIRE(dims.size() == static_cast<std::size_t>(i + 1));
    for (std::int64_t j = 0; j <= i; ++j) CHECK(dims[static_cast<std::size_t>(j)] == j);
  }
  const Dims copy = dims;
  for (int i = 0; i < 5; ++i) dims.erase(1);
  CHECK(dims == Dims{0, 6, 7, 8, 9});
  CHECK(copy == Dims{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  dims.insert(0, -1);
  dims.insert(6, 10);
  dims.insert(3, 5);
  CHECK(dims == Dims{-1, 0, 6, 5, 7, 8, 9, 10});
  dims = Dims{1};
  CHECK(dims == Dims{1});
  CHECK(Dims(8, 3) == Dims{3, 3, 3, 3, 3, 3, 3, 3});
  CHECK(Dims{1, 2} != Dims{1, 2, 3});
}

TEST_CASE("shapes are counted, printed and laid out row-major") {
  CHECK(to_string(Shape{}) == "[]");
  CHECK(to_string(Shape{64, 784}) == "[64, 784]");
  CHECK(element_count({}) == 1);
  CHECK(element_count({2, 3, 4}) == 24);
  CHECK(element_count({2, 0, 4}) == 0);
  CHECK(contiguous_strides({2, 3, 4}) == Strides{12, 4, 1});
  CHECK(is_contiguous({2, 3}, {3, 1}));
  CHECK_FALSE(is_contiguous({2, 3}, {1, 2}));
  CHECK(is_contiguous({2, 1, 3}, {3, 99, 1}));  // the stride of a length of 1 does not matter
  CHECK(is_contiguous({2, 0, 3}, {7, 7, 7}));
  CHECK_FALSE(is_contiguous({2}, {0}));
}

TEST_CASE("counts that do not fit are refused, and saturate where nothing may throw") {
  const std::int64_t big = std::int64_t{1} << 40;
  CHECK(element_count({big, big}) == std::numeric_limits<std::int64_t>::max());
  CHECK(element_count({big, big, 0}) == 0);
  CHECK_THROWS_WITH_AS(checked_element_count("here", {big, big}),
                       "[here] shape [1099511627776, 1099511627776]: the size overflows 64 bits", ShapeError);
  CHECK_THROWS_WITH_AS(checked_element_count("here", {2, -3}), "[here] negative length in shape [2, -3]", ShapeError);
  CHECK_THROWS_AS(checked_element_count("here", {big, 0, big}), ShapeError);  // as its strides and parts would not fit
  CHECK(checked_element_count("here", {big, 0, 5}) == 0);
}

TEST_CASE("broadcasting follows NumPy") {
  CHECK(broadcast_shapes("add", {2, 3}, {2, 3}) == Shape{2, 3});
  CHECK(broadcast_shapes("add", {3}, {2, 1}) == Shape{2, 3});
  CHECK(broadcast_shapes("add", {}, {2, 1}) == Shape{2, 1});
  CHECK(broadcast_shapes("add", {5, 1, 4}, {3, 1}) == Shape{5, 3, 4});
  CHECK(broadcast_shapes("add", {0}, {1}) == Shape{0});
  CHECK(broadcast_shapes("add", {1}, {0}) == Shape{0});
  CHECK_THROWS_WITH_AS(broadcast_shapes("add", {2, 3}, {4}), "[add] shapes [2, 3] and [4] cannot be broadcast together",
                       ShapeError);
  CHECK_THROWS_AS(broadcast_shapes("add", {0}, {2}), ShapeError);
}

TEST_CASE("shapes, dtypes and devices are written to streams as to_string has them") {
  std::ostringstream out;
  out << Shape{2, 3} << ' ' << DType::bf16 << ' ' << cuda(1);
  CHECK(out.str() == "[2, 3] bf16 cuda:1");
}

TEST_CASE("negative axes count from the back") {
  CHECK(normalize_axis("sum", 0, 3) == 0);
  CHECK(normalize_axis("sum", -1, 3) == 2);
  CHECK(normalize_axis("sum", -3, 3) == 0);
  CHECK_THROWS_WITH_AS(normalize_axis("sum", 3, 3), "[sum] axis 3 is out of range for rank 3", ShapeError);
  CHECK_THROWS_AS(normalize_axis("sum", -4, 3), ShapeError);
  CHECK_THROWS_AS(normalize_axis("sum", 0, 0), ShapeError);
}

}  // namespace
}  // namespace tutti

TEST_SUITE_END();
