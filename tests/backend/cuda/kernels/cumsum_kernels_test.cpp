// SPDX-License-Identifier: Apache-2.0
// The kernels of cumsum on the host against the CPU backend.
#include <tutti/backend/cuda/kernels/cumsum.h>
#include <tutti/backend/operations.h>
#include <tutti/tests/backend/cuda/on_host/device_array.h>
#include <tutti/tests/backend/random/random_views.h>

#include <doctest/doctest.h>

#include <limits>

TEST_SUITE_BEGIN("cpu");

namespace tutti {
namespace {

using cuda_kernels::AxisLines;
using on_host::DeviceArray;

void check(const Array& input, std::size_t axis) {
  for (const bool reverse : {false, true}) {
    CAPTURE(to_string(input.shape()));
    CAPTURE(to_string(input.dtype()));
    CAPTURE(axis);
    CAPTURE(reverse);
    const Array expected = cumsum(input, static_cast<std::int64_t>(axis), reverse);
    const DeviceArray from(input);
    const Array found = on_host::in_every_order([&] {
      DeviceArray to = DeviceArray::unwritten(expected.bytes());
      cuda_kernels::launch_cumsum(nullptr, input.dtype(), AxisLines::of(input.shape(), axis), reverse, from.data(),
                                  to.data());
      return to.read(expected.shape(), expected.dtype());
    });
    CHECK(on_host::same_bits(found, expected));  // the numbers add up without loss
  }
}

void check_places(const Array& input, std::size_t axis) {
  for (const ArgReduction kind : {ArgReduction::arg_max, ArgReduction::arg_min}) {
    CAPTURE(to_string(input.shape()));
    CAPTURE(to_string(input.dtype()));
    CAPTURE(axis);
    const Array expected = running_arg(kind, input, static_cast<std::int64_t>(axis));
    const DeviceArray from(input);
    const Array found = on_host::in_every_order([&] {
      DeviceArray to = DeviceArray::unwritten(expected.bytes());
      cuda_kernels::launch_running_arg(nullptr, kind, input.dtype(), AxisLines::of(input.shape(), axis), from.data(),
                                       to.as<std::int64_t>());
      return to.read(expected.shape(), DType::i64);
    });
    CHECK(on_host::same_bits(found, expected));
  }
}

TEST_CASE("running places of short and long lines: many are equal, some NaN") {
  samples::RandomViews views(43);
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64})
    for (const Shape& shape : {Shape{1}, Shape{5, 32}, Shape{3, 33}, Shape{2, 1024}, Shape{2, 2500}, Shape{600, 3},
                               Shape{2, 40, 5}, Shape{1030, 2}}) {
      const Array lines = Array::empty(shape, dtype, cpu());
      views.fill(lines);
      for (std::size_t axis = 0; axis < shape.size(); ++axis) check_places(lines, axis);
    }
  for (const double value : {std::numeric_limits<double>::quiet_NaN(), 2.0, -std::numeric_limits<double>::infinity()})
    check_places(Array::full({3, 200}, value, DType::f32, cpu()), 1);
}

TEST_CASE("running sums of short and long lines, side by side or apart") {
  samples::RandomViews views(41);
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64})
    for (const Shape& shape : {Shape{1}, Shape{5, 32}, Shape{3, 33}, Shape{2, 1024}, Shape{2, 2500}, Shape{600, 3},
                               Shape{2, 40, 5}, Shape{300, 2}, Shape{1030, 2}}) {
      const Array lines = Array::empty(shape, dtype, cpu());
      views.fill_ordinary(lines);
      for (std::size_t axis = 0; axis < shape.size(); ++axis) check(lines, axis);
    }
}

TEST_CASE("running sums with fewer blocks than lines need") {
  samples::RandomViews views(42);
  on_host::schedule.most_blocks = 2;
  for (const Shape& shape : {Shape{9, 70}, Shape{700, 3}}) {
    const Array lines = Array::empty(shape, DType::f32, cpu());
    views.fill_ordinary(lines);
    check(lines, 1);
    check(lines, 0);
    check_places(lines, 1);
    check_places(lines, 0);
  }
  on_host::schedule.most_blocks = ~0U;
}

}  // namespace
}  // namespace tutti

TEST_SUITE_END();
