// SPDX-License-Identifier: Apache-2.0
// The kernels of argmax and argmin on the host against the CPU backend.
#include <tutti/backend/cuda/kernels/arg_reduce.h>
#include <tutti/backend/operations.h>
#include <tutti/tests/backend/cuda/on_host/device_array.h>
#include <tutti/tests/backend/random/random_views.h>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

namespace tutti {
namespace {

using cuda_kernels::AxisLines;
using on_host::DeviceArray;

constexpr DType kNumbers[] = {DType::f32, DType::f64, DType::i32, DType::i64};

void check(const Array& input, std::int64_t axis) {
  for (const ArgReduction kind : {ArgReduction::arg_max, ArgReduction::arg_min}) {
    CAPTURE(to_string(input.shape()));
    CAPTURE(to_string(input.dtype()));
    CAPTURE(axis);
    const Array expected = arg_reduce(kind, input, axis, true);
    const DeviceArray from(input);
    const auto lines = AxisLines::of(input.shape(), static_cast<std::size_t>(axis));
    const Array found = on_host::in_every_order([&] {
      DeviceArray to = DeviceArray::unwritten(expected.bytes());
      cuda_kernels::launch_arg_reduce(nullptr, kind, input.dtype(), lines, from.data(), to.as<std::int64_t>());
      return to.read(expected.shape(), DType::i64);
    });
    CHECK(on_host::same_bits(found, expected));
  }
}

TEST_CASE("the first of equals, and of NaN, by every way that lines are shared out") {
  samples::RandomViews views(23);
  for (const DType dtype : kNumbers)
    for (const std::int64_t length : {1, 2, 8, 33, 130, 1024, 2100})
      for (const std::int64_t lines : {1, 19}) {
        const Array side_by_side = Array::empty({lines, length}, dtype, cpu());
        views.fill(side_by_side);  // few values: many are equal
        check(side_by_side, 1);
        if (length <= 130 || lines == 1) check(side_by_side.transpose().contiguous(), 0);
      }
}

TEST_CASE("arguments of lines in the middle, of all equal and of nothing but NaN") {
  samples::RandomViews views(24);
  for (const DType dtype : kNumbers) {
    const Array middle = Array::empty({3, 50, 9}, dtype, cpu());
    views.fill_ordinary(middle);
    check(middle, 1);
    check(middle, 0);
    check(Array::full({5, 300}, 2, dtype, cpu()), 1);
    check(Array::full({300, 5}, 2, dtype, cpu()), 0);
  }
  for (const DType dtype : {DType::f32, DType::f64})
    for (const double value : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                               -std::numeric_limits<double>::infinity()})
      check(Array::full({3, 200}, value, dtype, cpu()), 1);
}

TEST_CASE("arguments with fewer blocks than lines need") {
  samples::RandomViews views(35);
  on_host::schedule.most_blocks = 2;
  for (const Shape& shape : {Shape{7, 1100}, Shape{700, 9}, Shape{40, 200}}) {
    const Array lines = Array::empty(shape, DType::f32, cpu());
    views.fill(lines);
    check(lines, 1);
    check(lines, 0);
  }
  on_host::schedule.most_blocks = ~0U;
}

}  // namespace
}  // namespace tutti

TEST_SUITE_END();
