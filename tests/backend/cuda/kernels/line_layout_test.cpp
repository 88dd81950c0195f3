// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/kernels/parts/axis_lines.h>
#include <tutti/backend/cuda/kernels/parts/line_layout.h>

#include <doctest/doctest.h>

#include <set>
#include <utility>

TEST_SUITE_BEGIN("cpu");

namespace tutti::cuda_kernels {
namespace {

TEST_CASE("line layout: every line and lane of a block has one thread") {
  for (const bool adjacent : {false, true})
    for (const std::int64_t count : {1, 2, 7, 31, 33, 1000, 100000})
      for (const std::int64_t length : {1, 3, 4, 10, 100, 1023, 1024, 8191, 8192, 1000000}) {
        CAPTURE(count);
        CAPTURE(length);
        const LineLayout layout = LineLayout::of(count, length, adjacent, LineLayout::kOnePass);
        REQUIRE(layout.lines * layout.lanes == LineLayout::kThreads);
        std::set<std::pair<std::uint32_t, std::uint32_t>> seen;
        for (std::uint32_t thread = 0; thread < LineLayout::kThreads; ++thread) {
          REQUIRE(layout.line_of(thread) < layout.lines);
          REQUIRE(layout.lane_of(thread) < layout.lanes);
          seen.emplace(layout.line_of(thread), layout.lane_of(thread));
        }
        CHECK(seen.size() == LineLayout::kThreads);
        CHECK(layout.groups(count) * layout.lines >= count);
        // Lanes of a warp, or the whole block: what joining them relies on.
        if (adjacent) CHECK((layout.lanes <= LineLayout::kWarp || layout.lanes == LineLayout::kThreads));
      }
}

TEST_CASE("line layout: long lines get many threads, and neighbours in memory neighbouring threads") {
  CHECK(LineLayout::of(10, 5000, true, LineLayout::kOnePass).lanes == 256);
  CHECK(LineLayout::of(10, 500, true, LineLayout::kOnePass).lanes == 32);
  CHECK(LineLayout::of(10000, 5000, true, LineLayout::kOnePass).lanes == 32);
  CHECK(LineLayout::of(10000, 9000, true, LineLayout::kOnePass).lanes == 256);
  CHECK(LineLayout::of(10000, 1000, true, LineLayout::kSeveralPasses).lanes == 32);
  CHECK(LineLayout::of(10000, 1100, true, LineLayout::kSeveralPasses).lanes == 256);
  CHECK(LineLayout::of(10, 10, true, LineLayout::kOnePass).lanes == 4);
  CHECK(LineLayout::of(10000, 5000, false, LineLayout::kOnePass).lines == 32);
  CHECK(LineLayout::of(10000, 2, false, LineLayout::kOnePass).lines == 128);
  CHECK(LineLayout::of(7, 5000, false, LineLayout::kOnePass).lines == 8);
  CHECK(LineLayout::of(10, 5000, true, LineLayout::kOnePass).lane_of(1) == 1);
  CHECK(LineLayout::of(10000, 5000, false, LineLayout::kOnePass).line_of(1) == 1);
}

TEST_CASE("axis lines: the elements of all lines are all elements") {
  const Shape shape{3, 4, 5};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const AxisLines lines = AxisLines::of(shape, axis);
    CHECK(lines.length == shape[axis]);
    std::set<std::int64_t> seen;
    for (std::int64_t line = 0; line < lines.count; ++line)
      for (std::int64_t i = 0; i < lines.length; ++i) seen.insert(lines.first(line) + i * lines.inner);
    CHECK(seen.size() == 60);
    CHECK(*seen.rbegin() == 59);
  }
  CHECK(AxisLines::of(Shape{}, 0).count == 1);
}

TEST_CASE("strided axes: division is the same in 32 and in 64 bits") {
  for (const std::int64_t number : {std::int64_t{0}, std::int64_t{17}, std::int64_t{0xffffffff}, std::int64_t{1} << 40})
    for (const std::int64_t by : {std::int64_t{1}, std::int64_t{7}, std::int64_t{0xffffffff}, std::int64_t{1} << 33}) {
      const Division result = divide(number, by);
      CHECK(result.quotient == number / by);
      CHECK(result.remainder == number % by);
    }
}

TEST_CASE("strided axes: offsets of both arrays, in row-major order of the axes") {
  const StridedAxes axes{{2, 3, 4}, {100, 0, 1}, {1, 2, 0}, 3};
  CHECK(axes.size() == 24);
  std::int64_t place = 0;
  for (std::int64_t i = 0; i < 2; ++i)
    for (std::int64_t j = 0; j < 3; ++j)
      for (std::int64_t k = 0; k < 4; ++k, ++place) {
        CHECK(axes.offsets(place).from == 100 * i + k);
        CHECK(axes.offsets(place).to == i + 2 * j);
      }
  CHECK(StridedAxes{}.offsets(0).from == 0);
  CHECK(StridedAxes{}.size() == 1);
}

}  // namespace
}  // namespace tutti::cuda_kernels

TEST_SUITE_END();
