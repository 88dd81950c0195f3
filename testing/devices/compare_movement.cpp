// SPDX-License-Identifier: Apache-2.0
#include <tutti/testing/device_comparison.h>

#include <tutti/backend/operations.h>
#include <tutti/backend/registry.h>

namespace tutti::testing {
namespace {

const std::vector<Shape> kShapes = {{}, {1}, {0, 3}, {17}, {5, 33}, {3, 1, 4, 5}, {2051}};

void compare_copies(DeviceComparison& both, const Shape& shape, DType dtype) {
  const Array x = numbers(shape, dtype, Numbers::special, 1);
  both.compare_layouts(
      "copy", {x}, [](const Arrays& in) { return Arrays{in[0].copy()}; }, Match::bitwise);
  both.compare_layouts(
      "to another device and back", {x}, [](const Arrays& in) { return Arrays{in[0].to(cpu(1)).to(in[0].device())}; },
      Match::bitwise);
  for (const DType other : kAllDTypes)
    both.compare_layouts(
        "cast", {x}, [other](const Arrays& in) { return Arrays{in[0].cast(other)}; }, Match::bitwise);
  both.compare_layouts(
      "fill", {x},
      [](const Arrays& in) {
        Array filled = Array::empty(in[0].shape(), in[0].dtype(), in[0].device());
        filled.fill(1.75);
        return Arrays{filled};
      },
      Match::bitwise);
  if (shape.empty()) return;
  both.compare(
      "fill of a view", {x},
      [](const Arrays& in) {
        Array view = in[0].slice(-1, 0, in[0].length(-1), 3);
        view.fill(3);
        return Arrays{in[0]};
      },
      Match::bitwise);
}

void compare_where(DeviceComparison& both, const Shape& shape, DType dtype) {
  both.compare_layouts(
      "where",
      {numbers(shape, DType::i32, Numbers::plain, 2).cast(DType::boolean), numbers(shape, dtype, Numbers::special, 3),
       numbers(shape, dtype, Numbers::plain, 4)},
      [](const Arrays& in) { return Arrays{where(in[0], in[1], in[2])}; }, Match::bitwise);
}

/// Random numbers take no inputs: one array, to tell the device.
void compare_random(DeviceComparison& both, DType dtype) {
  const Array somewhere = numbers({1}, DType::f32, Numbers::plain, 5);
  for (const std::int64_t count : {0, 1, 3, 1000, 5003})
    for (const std::string_view kind : {"uniform", "normal", "truncated_normal"})
      both.compare(
          std::string(kind), {somewhere},
          [=](const Arrays& in) {
            Generator random(11, 3);
            Arrays drawn;
            for (const std::int64_t offset : {0, 1, 2, 5})  // each starts behind the last
              if (kind == "uniform")
                drawn.push_back(random.uniform({count + offset}, dtype, in[0].device(), -1, 2));
              else if (kind == "normal")
                drawn.push_back(random.normal({count + offset}, dtype, in[0].device(), 1, 2));
              else
                drawn.push_back(random.truncated_normal({count + offset}, dtype, in[0].device(), 1, 2, -1, 4));
            return drawn;
          },
          kind == "uniform" ? Match::bitwise : Match::each);
}

void compare_dropout(DeviceComparison& both, DType dtype) {
  for (const std::int64_t count : {0, 1, 7, 5003})
    both.compare("dropout", {numbers({count}, dtype, Numbers::plain, 6)}, [](const Arrays& in) {
      Generator random(11, 3);
      const auto [output, kept] = dropout(in[0], 0.7, 1 / 0.7, random);
      return Arrays{output, kept, dropout_gradient(kept, 1 / 0.7, in[0])};
    });
}

}  // namespace

void compare_movement(DeviceComparison& both) {
  for (const DType dtype : kAllDTypes) {
    for (const Shape& shape : kShapes) {
      compare_copies(both, shape, dtype);
      compare_where(both, shape, dtype);
    }
    if (dtype == DType::boolean) continue;
    both.compare(
        "arange", {numbers({1}, DType::f32, Numbers::plain, 5)},
        [dtype](const Arrays& in) {
          const std::int64_t count = size_of(dtype) == 1 ? 100 : 1000;  // as i8 can hold
          return Arrays{Array::arange(count, dtype, in[0].device()), Array::arange(7, dtype, in[0].device(), 90, -13)};
        },
        Match::bitwise);
  }
  for (const DType dtype : {DType::f32, DType::f64}) compare_random(both, dtype);
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) compare_dropout(both, dtype);
}

}  // namespace tutti::testing
