// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/kernels/parts/reduce_terms.h>
#include <tutti/backend/cuda/plans/reduce_shape.h>
#include <tutti/backend/error.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/registry.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

TEST_SUITE_BEGIN("cpu");

namespace tutti {
namespace {

using cuda_kernels::ReduceShape;

Array numbers(const Shape& shape) { return Array::arange(element_count(shape), DType::i64, Device{}).reshape(shape); }

Array kept(const Array& input, const std::vector<std::int64_t>& axes) {
  Shape shape = input.shape();
  for (const std::int64_t axis : axes) shape[static_cast<std::size_t>(axis)] = 1;
  return Array::full(shape, -1, input.dtype(), Device{});
}

/// Adds up segments of lines, as kernels do.
void check_sum(const Array& input, const std::vector<std::int64_t>& axes) {
  CAPTURE(to_string(input.shape()));
  const Array output = kept(input, axes);
  synchronize(Device{});  // the memory itself is read and written
  const ReduceShape shape = reduce_shape(input, output);
  CHECK(shape.segment * shape.segments >= shape.length);
  CHECK(shape.segment * (shape.segments - 1) < shape.length);
  for (std::int64_t line = 0; line < shape.outputs; ++line) {
    const auto place = shape.kept.offsets(line);
    std::int64_t sum = 0;
    for (std::int64_t i = 0; i < shape.length; ++i)
      sum += input.data<std::int64_t>()[place.from + shape.reduced.offsets(i).from];
    output.data<std::int64_t>()[place.to] = sum;
  }
  CHECK(output.to_vector<std::int64_t>() == sum(input, axes, true).to_vector<std::int64_t>());
}

TEST_CASE("reduce shape: any axes of any view") {
  for (const std::vector<std::int64_t>& axes : std::vector<std::vector<std::int64_t>>{
           {0}, {1}, {2}, {3}, {0, 1}, {1, 2}, {2, 3}, {0, 2}, {1, 3}, {0, 1, 2, 3}}) {
    check_sum(numbers({2, 3, 4, 5}), axes);
    check_sum(numbers({4, 3, 5, 2}).permute({3, 1, 0, 2}), axes);
    check_sum(numbers({1, 3, 1, 5}).broadcast_to({2, 3, 4, 5}), axes);
    check_sum(numbers({2, 3, 4, 15}).slice(3, 1, 15, 3), axes);
  }
}

TEST_CASE("reduce shape: axes are joined, and the layout follows what lies together") {
  const Array input = numbers({2, 3, 4, 5});
  const ReduceShape rows = reduce_shape(input, kept(input, {2, 3}));
  CHECK(rows.kept.count == 1);
  CHECK(rows.reduced.count == 1);
  CHECK(rows.layout.adjacent);
  const ReduceShape columns = reduce_shape(input, kept(input, {0, 1}));
  CHECK(columns.kept.count == 1);
  CHECK(columns.reduced.count == 1);
  CHECK(!columns.layout.adjacent);
  const ReduceShape channels = reduce_shape(input, kept(input, {0, 2, 3}));
  CHECK(channels.reduced.count == 2);
  CHECK(channels.layout.adjacent);
  CHECK(!reduce_shape(input.transpose(), kept(input.transpose(), {3})).layout.adjacent);
}

TEST_CASE("reduce shape: quads need alignment and whole lines of them") {
  const Array wide = numbers({6, 16});
  CHECK(reduce_shape(wide, kept(wide, {1})).in_quads);
  CHECK(!reduce_shape(wide, kept(wide, {0})).in_quads);
  const Array odd = numbers({6, 15});
  CHECK(!reduce_shape(odd, kept(odd, {1})).in_quads);
  const Array shifted = wide.slice(1, 1, 13);
  CHECK(!reduce_shape(shifted, kept(shifted, {1})).in_quads);
  const Array part = wide.slice(1, 0, 12);
  CHECK(reduce_shape(part, kept(part, {1})).in_quads);
}

TEST_CASE("reduce shape: few long lines are cut into segments of whole steps") {
  const Array input = numbers({1 << 20});
  const ReduceShape shape = reduce_shape(input, kept(input, {0}));
  CHECK(shape.segments > 100);
  CHECK(shape.segment % (4 * shape.layout.lanes) == 0);
  CHECK(shape.partial_bytes() == shape.segments * 8);
  const Array many = numbers({4096, 64});
  CHECK(reduce_shape(many, kept(many, {1})).segments == 1);
  CHECK(reduce_shape(many, kept(many, {1})).partial_bytes() == 0);
}

TEST_CASE("reduce shape: more axes than kernels take is an error") {
  Shape shape(18, 2);
  std::vector<std::int64_t> axes;
  for (std::int64_t axis = 0; axis < 18; axis += 2) axes.push_back(axis);
  const Array input = numbers(shape);
  CHECK_THROWS_AS(reduce_shape(input, kept(input, axes)), ShapeError);
}

TEST_CASE("reduce terms: sums are kept wide, integers wrap, NaN wins") {
  using cuda_kernels::Extreme;
  using cuda_kernels::FloatSum;
  using cuda_kernels::IntegerSum;
  CHECK(FloatSum<float, false>::add(1e8, 1.0F) == 100000001.0);
  CHECK(FloatSum<float, true>::add(0.0, 1.0F, 2.0F, 3.0F, 4.0F) == 30.0);
  using Squares = IntegerSum<std::int32_t, true>;
  CHECK(Squares::finish(Squares::add(0, -3)) == 9);
  using Sum = IntegerSum<std::int32_t, false>;
  CHECK(Sum::finish(Sum::add(Sum::add(0, std::numeric_limits<std::int32_t>::max()), 1)) ==
        std::numeric_limits<std::int32_t>::min());
  CHECK(Sum::finish(Sum::add(5, -7)) == -2);
  using Max = Extreme<float, elementwise::Maximum>;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isnan(Max::add(1.0F, nan)));
  CHECK(std::isnan(Max::add(nan, 1.0F)));
  CHECK(std::isnan(Max::add(1.0F, 2.0F, nan, 3.0F, 4.0F)));
  CHECK(Max::add(Max::identity(), -5.0F) == -5.0F);
  CHECK(Extreme<std::int64_t, elementwise::Minimum>::identity() == std::numeric_limits<std::int64_t>::max());
}

}  // namespace
}  // namespace tutti

TEST_SUITE_END();
