// SPDX-License-Identifier: Apache-2.0
// The kernels of softmax, log_softmax and their gradients on the host against the CPU backend.
#include <tutti/backend/cuda/kernels/softmax.h>
#include <tutti/backend/operations.h>
#include <tutti/tests/backend/cuda/on_host/device_array.h>
#include <tutti/tests/backend/random/random_views.h>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

namespace tutti {
namespace {

using cuda_kernels::AxisLines;
using on_host::DeviceArray;

constexpr SoftmaxKind kKinds[] = {SoftmaxKind::softmax, SoftmaxKind::log_softmax};

double tolerance(DType dtype) { return dtype == DType::f32 ? 1e-5 : 1e-13; }

Array forward_on_host(SoftmaxKind kind, const Array& input, std::int64_t axis) {
  const DeviceArray from(input);
  return on_host::in_every_order([&] {
    DeviceArray to = DeviceArray::unwritten(input.bytes());
    cuda_kernels::launch_softmax(nullptr, kind, input.dtype(),
                                 AxisLines::of(input.shape(), static_cast<std::size_t>(axis)), from.data(), to.data());
    return to.read(input.shape(), input.dtype());
  });
}

Array gradient_on_host(SoftmaxKind kind, const Array& output, const Array& gradient, std::int64_t axis) {
  const DeviceArray y(output);
  const DeviceArray dy(gradient);
  return on_host::in_every_order([&] {
    DeviceArray to = DeviceArray::unwritten(output.bytes());
    cuda_kernels::launch_softmax_gradient(nullptr, kind, output.dtype(),
                                          AxisLines::of(output.shape(), static_cast<std::size_t>(axis)), y.data(),
                                          dy.data(), to.data());
    return to.read(output.shape(), output.dtype());
  });
}

void check(SoftmaxKind kind, const Array& input, const Array& gradient, std::int64_t axis) {
  CAPTURE(to_string(input.shape()));
  CAPTURE(to_string(input.dtype()));
  CAPTURE(axis);
  CAPTURE(static_cast<int>(kind));
  const Array output = softmax(kind, input, axis);
  CHECK(on_host::differences(forward_on_host(kind, input, axis), output, tolerance(input.dtype())) == 0);
  const Array expected = softmax_gradient(kind, output, gradient, axis);
  CHECK(on_host::differences(gradient_on_host(kind, output, gradient, axis), expected, 30 * tolerance(input.dtype())) ==
        0);
}

void check(samples::RandomViews& views, const Shape& shape, std::int64_t axis) {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const SoftmaxKind kind : kKinds) {
      const Array input = Array::empty(shape, dtype, cpu());
      const Array gradient = Array::empty(shape, dtype, cpu());
      views.fill_ordinary(input);
      views.fill_ordinary(gradient);
      check(kind, input, gradient, axis);
    }
}

TEST_CASE("softmax by every way that lines are shared out") {
  samples::RandomViews views(25);
  for (const std::int64_t length : {1, 3, 4, 8, 10, 64, 65, 128, 1024, 1025, 2052}) {
    check(views, {length}, 0);
    check(views, {5, length}, 1);
    check(views, {length, 5}, 0);
  }
  check(views, {70, 12}, 1);
  check(views, {2, 60, 9}, 1);
  check(views, {3, 7, 1}, 2);
}

TEST_CASE("softmax of lines that do not begin at 16 bytes") {
  samples::RandomViews views(26);
  for (const DType dtype : {DType::f32, DType::f64})
    for (const SoftmaxKind kind : kKinds) {
      const Array whole = Array::empty({5 * 64 + 1}, dtype, cpu());
      views.fill_ordinary(whole);
      const Array lines = as_strided(whole, {5, 64}, {64, 1}, 1);
      check(kind, lines, lines, 1);
    }
}

TEST_CASE("softmax of NaN, infinities, masked lines and large numbers") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const DType dtype : {DType::f32, DType::f64})
    for (const SoftmaxKind kind : kKinds)
      for (const std::int64_t length : {3, 40, 1100})
        for (const double special : {kNan, kInfinity, -kInfinity, 1e30, -1e30}) {
          std::vector<double> values(static_cast<std::size_t>(3 * length), 0.25);
          values[1] = special;                                    // in a line
          std::fill_n(values.begin() + length, length, special);  // a whole line
          values.back() = special;                                // at the end of one
          const Array input = Array::from(values, {3, length}, cpu()).cast(dtype);
          CAPTURE(special);
          const Array expected = softmax(kind, input, 1);
          CHECK(on_host::differences(forward_on_host(kind, input, 1), expected, tolerance(dtype)) == 0);
          const Array columns = input.transpose().contiguous();
          CHECK(on_host::differences(forward_on_host(kind, columns, 0), softmax(kind, columns, 0), tolerance(dtype)) ==
                0);
        }
}

TEST_CASE("softmax with fewer blocks than lines need") {
  samples::RandomViews views(36);
  on_host::schedule.most_blocks = 2;
  for (const Shape& shape : {Shape{7, 1100}, Shape{700, 9}, Shape{40, 200}}) {
    check(views, shape, 1);
    check(views, shape, 0);
  }
  on_host::schedule.most_blocks = ~0U;
}

}  // namespace
}  // namespace tutti

TEST_SUITE_END();
