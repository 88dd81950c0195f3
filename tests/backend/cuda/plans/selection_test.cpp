// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/plans/selection.h>
#include <tutti/backend/error.h>
#include <tutti/backend/operations.h>

#include <doctest/doctest.h>

#include <set>

TEST_SUITE_BEGIN("cpu");

namespace tutti {
namespace {

using cuda_kernels::IndexFault;
using cuda_kernels::Selection;

void check_gather(const Shape& shape, const Shape& index_shape, std::size_t axis, std::int32_t axes) {
  CAPTURE(to_string(shape));
  CAPTURE(to_string(index_shape));
  const Array input = Array::arange(element_count(shape), DType::i64, Device{}).reshape(shape);
  std::vector<std::int64_t> index(static_cast<std::size_t>(element_count(index_shape)));
  for (std::size_t i = 0; i < index.size(); ++i) index[i] = static_cast<std::int64_t>(i * 7) % shape[axis];
  const Selection selection = selection_of("gather", shape, index_shape, axis);
  CHECK(selection.axes.count == axes);
  std::vector<std::int64_t> found;
  for (std::int64_t i = 0; i < selection.size; ++i)
    found.push_back(selection.place(i, index[static_cast<std::size_t>(i)]));
  const Array expected = gather(input, static_cast<std::int64_t>(axis), Array::from(index, index_shape, Device{}));
  CHECK(found == expected.to_vector<std::int64_t>());

  std::set<std::int64_t> elements;
  for (std::int64_t line = 0; line < selection.lines(); ++line)
    for (std::int64_t position = 0; position < selection.length; ++position)
      elements.insert(selection.element(line, position));
  CHECK(static_cast<std::int64_t>(elements.size()) == selection.size);
}

TEST_CASE("selection: what an index selects along any axis, of arrays that may be longer") {
  check_gather({10}, {6}, 0, 1);
  check_gather({10, 5}, {20, 5}, 0, 2);
  check_gather({10, 5}, {20, 3}, 0, 2);
  check_gather({6, 10}, {6, 1}, 1, 1);
  check_gather({4, 6, 10, 5}, {4, 6, 7, 5}, 2, 3);
  check_gather({4, 6, 10, 5}, {3, 5, 7, 4}, 2, 4);
}

TEST_CASE("selection: an index out of range is reported") {
  const Selection selection = selection_of("gather", {4, 5}, {4, 2}, 1);
  CHECK(selection.in_range(0));
  CHECK(selection.in_range(4));
  CHECK(!selection.in_range(5));
  CHECK(!selection.in_range(-1));
  IndexFault fault;
  CHECK(fault.operation == IndexFault::Operation::none);
  selection.report(&fault, IndexFault::Operation::gather, 5);
  CHECK(fault.operation == IndexFault::Operation::gather);
  CHECK(fault.index == 5);
  CHECK(fault.axis == 1);
  CHECK(fault.length == 5);
}

TEST_CASE("selection: more axes than kernels take is an error") {
  CHECK_THROWS_AS(selection_of("gather", Shape(10, 3), Shape(10, 2), 0), ShapeError);
}

}  // namespace
}  // namespace tutti

TEST_SUITE_END();
