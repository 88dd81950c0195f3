// SPDX-License-Identifier: Apache-2.0
// Which elements the threads of an elementwise kernel meet, against the plain definition of strides. Needs no device.
#include <tutti/backend/cuda/kernels/parts/launch_configuration.h>
#include <tutti/backend/cuda/plans/element_plan.h>
#include <tutti/backend/error.h>
#include <tutti/tests/backend/random/random_views.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <vector>

TEST_SUITE_BEGIN("cpu");

namespace tutti {
namespace {

using samples::RandomViews;
using Addresses = std::array<const std::byte*, ElementPlan::kOperands>;  // of one element in each operand

/// Every element by its strides.
std::vector<Addresses> expected_addresses(std::span<const Array* const> operands) {
  const Shape& shape = operands[0]->shape();
  std::vector<Addresses> all;
  for (std::int64_t element = 0; element < operands[0]->size(); ++element) {
    Addresses addresses{};
    for (std::size_t i = 0; i < operands.size(); ++i) {
      std::int64_t rest = element;
      std::int64_t offset = 0;
      for (std::size_t axis = shape.size(); axis-- > 0; rest /= shape[axis])
        offset += rest % shape[axis] * operands[i]->strides()[axis];
      addresses[i] = operands[i]->raw_data() + offset * static_cast<std::int64_t>(size_of(operands[i]->dtype()));
    }
    all.push_back(addresses);
  }
  return all;
}

/// Every element as the kernels' loops (kernels/parts/element_loops.cuh) meet it.
template <std::size_t operands> void visit_batch(const ElementBatch& batch,
                                                 const std::array<std::int64_t, operands>& bytes,
                                                 std::vector<Addresses>& all) {
  const ElementLayout& layout = batch.layout;
  const std::uint32_t lanes =
      batch.grouped ? group_lanes(static_cast<std::size_t>(*std::max_element(bytes.begin(), bytes.end()))) : 1;
  for (std::uint32_t item = 0; item < layout.items; ++item) {
    const auto offsets = element_offsets<operands>(layout, item);
    const std::uint32_t count = item + 1 == layout.items ? layout.in_last : lanes;
    for (std::uint32_t lane = 0; lane < count; ++lane) {
      Addresses addresses{};
      for (std::size_t i = 0; i < operands; ++i) {
        const std::byte* data = i == 0 ? batch.output : batch.input[i - 1];
        const std::int64_t step = layout.stride[i][0] == 0 ? 0 : lane;
        addresses[i] = data + (offsets.of[i] + step) * bytes[i];
        // A whole group is read at once.
        if (batch.grouped && lane == 0 && layout.stride[i][0] != 0)
          REQUIRE(reinterpret_cast<std::uintptr_t>(addresses[i]) % (lanes * static_cast<std::size_t>(bytes[i])) == 0);
      }
      all.push_back(addresses);
    }
  }
}

struct Visited {
  std::size_t batches = 0;
  std::size_t grouped = 0;
};

template <std::size_t operands>
Visited check_visits(const std::array<const Array*, operands>& arrays, std::int64_t limit = INT32_MAX) {
  std::array<std::int64_t, operands> bytes{};
  for (std::size_t i = 0; i < operands; ++i) bytes[i] = static_cast<std::int64_t>(size_of(arrays[i]->dtype()));
  std::vector<Addresses> found;
  Visited visited;
  for_each_batch(
      "test", *arrays[0], std::span(arrays).subspan(1),
      [&](const ElementBatch& batch) {
        ++visited.batches;
        visited.grouped += batch.grouped ? 1 : 0;
        visit_batch<operands>(batch, bytes, found);
      },
      limit);
  std::vector<Addresses> expected = expected_addresses(arrays);
  std::sort(expected.begin(), expected.end());
  std::sort(found.begin(), found.end());
  CHECK(found == expected);
  return visited;
}

TEST_CASE("division by an invariant number is exact") {
  constexpr std::uint32_t kMost = INT32_MAX;
  RandomViews random(1);
  std::vector<std::uint32_t> numbers = {0, 1, 2, 3, 5, 7, 641, 65535, 65536, 65537, kMost / 2, kMost - 1, kMost};
  for (int i = 0; i < 300; ++i) numbers.push_back(static_cast<std::uint32_t>(random.between(0, kMost)));
  for (int i = 0; i < 100; ++i) numbers.push_back(static_cast<std::uint32_t>(random.between(0, 3000)));
  std::size_t wrong = 0;
  for (const std::uint32_t by : numbers) {
    if (by == 0) continue;
    const Divisor divisor(by);
    for (const std::uint32_t number : numbers) wrong += divisor.quotient(number) == number / by ? 0 : 1;
    for (std::uint64_t multiple = by; multiple <= kMost; multiple += std::max<std::uint64_t>(by, kMost / 100)) {
      const auto whole = static_cast<std::uint32_t>(multiple / by * by);
      wrong += divisor.quotient(whole) == whole / by && divisor.quotient(whole - 1) == (whole - 1) / by ? 0 : 1;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("each element of any views is met once, at its addresses in all operands") {
  RandomViews views(2);
  for (int round = 0; round < 1500; ++round) {
    const Shape shape = views.shape(6, 18);
    const std::int64_t limits[] = {INT32_MAX, 1000, 50, 7};
    const std::int64_t limit = limits[views.between(0, 3)];
    CAPTURE(round);
    CAPTURE(limit);
    CAPTURE(to_string(shape));
    const Array output = views.output(shape, views.dtype());
    const Array a = views.input(shape, views.dtype());
    const Array b = views.input(shape, views.dtype());
    const Array c = views.input(shape, views.dtype());
    check_visits<1>({&output}, limit);
    check_visits<2>({&output, &a}, limit);
    check_visits<3>({&output, &a, &b}, limit);
    check_visits<4>({&output, &a, &b, &c}, limit);
  }
}

TEST_CASE("what lies together is taken 16 bytes at a time, whatever is left over") {
  const auto grouped = [](const Array& output, const Array& a, const Array& b) {
    const Visited visited = check_visits<3>({&output, &a, &b});
    CHECK(visited.batches == 1);
    return visited.grouped == 1;
  };
  const auto array = [](const Shape& shape, DType dtype = DType::f32) { return Array::empty(shape, dtype, cpu()); };
  for (const std::int64_t size : {1, 2, 3, 4, 5, 15, 16, 17, 1000, 1001})
    for (const DType dtype : kAllDTypes)
      CHECK(grouped(array({size}, dtype), array({size}, dtype), array({1}, dtype).broadcast_to({size})));
  CHECK(grouped(array({3, 5, 7}), array({3, 5, 7}), array({3, 5, 7})));
  CHECK(grouped(array({}), array({}), array({})));
  CHECK(grouped(array({6, 7}, DType::boolean), array({6, 7}), array({6, 7})));                    // comparison
  CHECK(grouped(array({9, 8}), array({9, 8}), array({8}).broadcast_to({9, 8})));                  // bias
  CHECK(grouped(array({9, 8}), array({9, 8}), array({9, 1}).broadcast_to({9, 8})));               // of each row
  CHECK(grouped(array({4, 3, 5, 8}), array({4, 5, 3, 8}).transpose(1, 2), array({4, 3, 5, 8})));  // heads
  CHECK(grouped(array({9, 8}), array({9, 16}).slice(1, 4, 12), array({9, 8})));
  CHECK_FALSE(grouped(array({9, 8}), array({9, 16}).slice(1, 3, 11), array({9, 8})));  // not aligned
  CHECK_FALSE(grouped(array({9, 8}), array({9, 15}).slice(1, 0, 8), array({9, 8})));
  CHECK_FALSE(grouped(array({9, 7}), array({9, 7}), array({7}).broadcast_to({9, 7})));  // rows end within groups
  CHECK_FALSE(grouped(array({8, 8}), array({8, 8}).transpose(), array({8, 8})));
  CHECK_FALSE(grouped(array({8}), array({16}).slice(0, 0, 16, 2), array({8})));
}

TEST_CASE("transposes of all operands alike are as good as contiguous") {
  const Array whole = Array::empty({4, 5, 6}, DType::f32, cpu());
  const Array output = whole.permute({2, 0, 1});
  const ElementPlan plan = plan_elements("test", output.shape(), std::array{&output.strides(), &output.strides()});
  CHECK(plan.axes == 1);
  CHECK(plan.length[0] == 120);
}

TEST_CASE("axes that stay apart are limited, and the error names the operation") {
  Shape shape;
  Strides wide;
  for (int axis = 0; axis < 9; ++axis) {
    shape.push_back(2);
    wide.push_back(std::int64_t{1} << (2 * (9 - axis)));
  }
  CHECK_THROWS_WITH_AS(plan_elements("cast", shape, std::array{&std::as_const(wide)}),
                       "[cast] [2, 2, 2, 2, 2, 2, 2, 2, 2]: strides that differ on more than 8 axes; copy an operand "
                       "first",
                       ShapeError);
  shape[0] = 1;
  CHECK(plan_elements("cast", shape, std::array{&std::as_const(wide)}).axes == 8);
}

TEST_CASE("beyond 32 bits the elements are shared out, in groups still") {
  const Shape shape{3, std::int64_t{1} << 32U, 4};
  const Strides output = contiguous_strides(shape);
  const Strides repeated{0, 0, 1};
  const ElementPlan plan = plan_elements("test", shape, std::array{&output, &repeated});
  CHECK(plan.axes == 2);
  const std::array<ElementMemory, 2> memory{{{nullptr, 4}, {nullptr, 4}}};
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  for_each_piece(plan, INT32_MAX, [&](const ElementPlan& piece) {
    CHECK(fits(piece, INT32_MAX));
    CHECK(can_group(piece, memory, 4));
    CHECK(piece.first[1] == 0);
    ranges.emplace_back(piece.first[0], piece.size());
  });
  CHECK(ranges.size() < 64);
  std::int64_t next = 0;
  for (const auto& [first, size] : ranges) {
    CHECK(first == next);
    next += size;
  }
  CHECK(next == element_count(shape));
}

TEST_CASE("far apart elements are shared out although they are few") {
  const Shape shape{4, 4};
  const Strides strides{std::int64_t{1} << 33U, 1};
  const ElementPlan plan = plan_elements("test", shape, std::array{&strides});
  std::size_t pieces = 0;
  for_each_piece(plan, INT32_MAX, [&](const ElementPlan& piece) {
    CHECK(piece.size() == 4);
    ++pieces;
  });
  CHECK(pieces == 4);
}

TEST_CASE("launches have at least a block, and threads loop beyond the most") {
  using namespace cuda_kernels;
  CHECK(blocks_for(0) == 1);
  CHECK(blocks_for(1) == 1);
  CHECK(blocks_for(kThreads) == 1);
  CHECK(blocks_for(kThreads + 1) == 2);
  CHECK(blocks_for(1000, 10) == 100);
  CHECK(blocks_for(std::int64_t{1} << 60U) == kMostBlocks);
  // A thread's next index does not overflow 32 bits.
  CHECK(std::int64_t{INT32_MAX} + std::int64_t{4} * kMostBlocks * kThreads <= std::int64_t{UINT32_MAX});
}

}  // namespace
}  // namespace tutti

TEST_SUITE_END();
