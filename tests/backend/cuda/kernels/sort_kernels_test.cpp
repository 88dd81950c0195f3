// SPDX-License-Identifier: Apache-2.0
// The kernels around CUB's sort on the host against the CPU backend.
#include <tutti/backend/cuda/kernels/sort.h>
#include <tutti/backend/operations.h>
#include <tutti/tests/backend/cuda/on_host/device_array.h>
#include <tutti/tests/backend/random/random_views.h>

#include <doctest/doctest.h>

#include <algorithm>

TEST_SUITE_BEGIN("cpu");

namespace tutti {
namespace {

using cuda_kernels::AxisLines;
using cuda_kernels::SortedLines;
using on_host::DeviceArray;

/// Sorts `together` lines at a time.
void check(const Array& input, std::size_t axis, std::int64_t together) {
  for (const bool descending : {false, true}) {
    CAPTURE(to_string(input.shape()));
    CAPTURE(to_string(input.dtype()));
    CAPTURE(axis);
    CAPTURE(descending);
    const Array expected = arg_sort(input, static_cast<std::int64_t>(axis), descending);
    const DeviceArray from(input);
    const AxisLines lines = AxisLines::of(input.shape(), axis);
    const Array found = on_host::in_every_order([&] {
      DeviceArray to = DeviceArray::unwritten(expected.bytes());
      for (std::int64_t begin = 0; begin < lines.count; begin += together) {
        const SortedLines range{lines, begin, std::min(together, lines.count - begin), descending};
        std::size_t bytes = 0;
        REQUIRE(cuda_kernels::arg_sort_workspace(input.dtype(), range, bytes) == cudaSuccess);
        DeviceArray workspace = DeviceArray::unwritten(bytes);
        REQUIRE(cuda_kernels::launch_arg_sort(nullptr, input.dtype(), range, from.data(), to.as<std::int64_t>(),
                                              workspace.data(), bytes) == cudaSuccess);
      }
      return to.read(expected.shape(), DType::i64);
    });
    CHECK(on_host::same_bits(found, expected));
  }
}

TEST_CASE("places in order, by keys of both widths, line by line") {
  samples::RandomViews views(43);
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64})
    for (const Shape& shape : {Shape{1}, Shape{1, 300}, Shape{9, 70}, Shape{3, 20, 5}, Shape{400, 2}}) {
      const Array lines = Array::empty(shape, dtype, cpu());
      views.fill(lines);  // few values, NaN and infinities among them
      for (std::size_t axis = 0; axis < shape.size(); ++axis)
        for (const std::int64_t together : {1000, 7}) check(lines, axis, together);
    }
}

TEST_CASE("places in order with fewer blocks than elements need") {
  samples::RandomViews views(44);
  on_host::schedule.most_blocks = 1;
  const Array lines = Array::empty({6, 150}, DType::f64, cpu());
  views.fill(lines);
  check(lines, 1, 1000);
  check(lines, 0, 1000);
  on_host::schedule.most_blocks = ~0U;
}

}  // namespace
}  // namespace tutti

TEST_SUITE_END();
