// SPDX-License-Identifier: Apache-2.0
// The kernels that normalise rows, on the host against the CPU backend.
#include <tutti/backend/cuda/kernels/normalize.h>
#include <tutti/backend/operations.h>
#include <tutti/tests/backend/cuda/on_host/device_array.h>
#include <tutti/tests/backend/random/random_views.h>

#include <doctest/doctest.h>

#include <optional>
#include <utility>

TEST_SUITE_BEGIN("cpu");

namespace tutti {
namespace {

using cuda_kernels::AxisLines;
using cuda_kernels::RowOperands;
using on_host::DeviceArray;

struct Sample {
  Array input;
  Array weight;
  Array bias;
  Array gradient;
};

// An array that may be undefined.
struct Lent {
  explicit Lent(const Array& values) {
    if (values.defined()) memory.emplace(values);
  }
  const void* data() const { return memory ? std::as_const(*memory).data() : nullptr; }
  std::optional<DeviceArray> memory;
};

Sample sample(samples::RandomViews& views, const Shape& shape, DType dtype, bool weight, bool bias) {
  const auto made = [&](const Shape& of) {
    const Array array = Array::empty(of, dtype, cpu());
    views.fill_ordinary(array);
    return array;
  };
  return {made(shape), weight ? made({shape[1]}) : Array(), bias ? made({shape[1]}) : Array(), made(shape)};
}

void check_forward(const RowNorm& norm, const Sample& in, double tolerance) {
  const auto expected = normalize_rows(norm, in.input, in.weight, in.bias);
  const DeviceArray x(in.input);
  const Lent weight(in.weight);
  const Lent bias(in.bias);
  const auto run = [&](int which) {
    return on_host::in_every_order([&] {
      DeviceArray y = DeviceArray::unwritten(in.input.bytes());
      DeviceArray mean = DeviceArray::unwritten(expected.mean.bytes());
      DeviceArray scale = DeviceArray::unwritten(expected.scale.bytes());
      cuda_kernels::launch_normalize_rows(nullptr, norm, in.input.dtype(), AxisLines::of(in.input.shape(), 1),
                                          {x.data(), weight.data(), bias.data(), mean.data(), scale.data()}, y.data());
      if (which == 0) return y.read(in.input.shape(), in.input.dtype());
      return (which == 1 ? mean : scale).read(expected.mean.shape(), in.input.dtype());
    });
  };
  CHECK(on_host::differences(run(0), expected.output, tolerance) == 0);
  if (in.weight.defined()) return;
  CHECK(on_host::differences(run(1), expected.mean, tolerance) == 0);
  CHECK(on_host::differences(run(2), expected.scale, tolerance) == 0);
}

void check_gradients(const RowNorm& norm, const Sample& in, double tolerance) {
  const auto by = normalize_rows(norm, in.input);
  const DeviceArray x(in.input);
  const DeviceArray dy(in.gradient);
  const Lent weight(in.weight);
  DeviceArray mean(by.mean);
  DeviceArray scale(by.scale);
  const RowOperands rows{x.data(), weight.data(), nullptr, mean.data(), scale.data()};
  const Array dx = on_host::in_every_order([&] {
    DeviceArray to = DeviceArray::unwritten(in.input.bytes());
    cuda_kernels::launch_normalize_rows_gradient(nullptr, norm, in.input.dtype(), AxisLines::of(in.input.shape(), 1),
                                                 rows, dy.data(), to.data());
    return to.read(in.input.shape(), in.input.dtype());
  });
  CHECK(on_host::differences(dx, normalize_rows_gradient(norm, in.input, in.weight, by.mean, by.scale, in.gradient),
                             tolerance) == 0);
  const auto columns = normalize_rows_column_gradients(in.input, by.mean, by.scale, in.gradient, true);
  for (const std::int64_t parts : {1, 3}) {
    const Shape shape{parts, in.input.length(1)};
    for (const bool with_bias : {true, false}) {
      const Array sums = on_host::in_every_order([&] {
        DeviceArray along =
            DeviceArray::unwritten(size_of(in.input.dtype()) * static_cast<std::size_t>(parts * shape[1]));
        DeviceArray level =
            DeviceArray::unwritten(size_of(in.input.dtype()) * static_cast<std::size_t>(parts * shape[1]));
        cuda_kernels::launch_normalize_rows_sums(nullptr, in.input.dtype(), in.input.length(0), shape[1], parts, rows,
                                                 dy.data(), along.data(), with_bias ? level.data() : nullptr);
        return (with_bias ? level : along).read(shape, in.input.dtype());
      });
      CHECK(on_host::differences(sum_to(sums, {shape[1]}), with_bias ? columns.bias : columns.weight, 30 * tolerance) ==
            0);
    }
  }
}

void check(samples::RandomViews& views, const Shape& shape) {
  CAPTURE(to_string(shape));
  for (const DType dtype : {DType::f32, DType::f64})
    for (const bool centred : {true, false})
      for (const int operands : {0, 1, 2, 3}) {
        if (dtype == DType::f64 && operands > 1) continue;  // the same code
        const RowNorm norm{.centred = centred, .epsilon = 0.01};
        const Sample in = sample(views, shape, dtype, operands % 2 == 1, operands > 1);
        const double tolerance = dtype == DType::f32 ? 1e-4 : 1e-11;
        check_forward(norm, in, tolerance);
        if (operands < 2) check_gradients(norm, in, tolerance);
      }
}

TEST_CASE("rows are normalised by every way that they are shared out") {
  samples::RandomViews views(41);
  for (const std::int64_t length : {1, 3, 8, 65, 128, 1024, 1025}) check(views, {3, length});
  check(views, {70, 12});
}

TEST_CASE("rows that do not begin at 16 bytes") {
  samples::RandomViews views(42);
  const Sample in = sample(views, {5, 64}, DType::f32, true, true);
  const Array whole = Array::empty({5 * 64 + 1}, DType::f32, cpu());
  views.fill_ordinary(whole);
  const Array shifted = as_strided(whole, {5, 64}, {64, 1}, 1);
  check_forward({}, {shifted, in.weight, in.bias, in.gradient}, 1e-4);
  check_gradients({}, {shifted, in.weight, {}, shifted}, 1e-4);
}

TEST_CASE("rows with fewer blocks than they need") {
  samples::RandomViews views(43);
  on_host::schedule.most_blocks = 2;
  check(views, {7, 1100});
  check(views, {90, 40});
  on_host::schedule.most_blocks = ~0U;
}

}  // namespace
}  // namespace tutti

TEST_SUITE_END();
