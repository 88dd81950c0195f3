// SPDX-License-Identifier: Apache-2.0
// Generated from the lists of elementwise operations: what is added there is compared.
#include <tutti/testing/device_comparison.h>

#include <tutti/backend/operations.h>
#include <tutti/testing/devices/elementwise_samples.h>

#include <type_traits>

namespace tutti::testing {
namespace {

using elementwise::Domain;
using Part = ElementwiseCall::Part;

const std::vector<Shape> kShapes = {{}, {1}, {0, 3}, {7}, {3, 17}, {2, 3, 5}, {1031}};

template <class O> bool takes(DType dtype) {
  switch (O::domain) {
    case Domain::floating: return is_floating(dtype);
    case Domain::bits: return !is_floating(dtype);
    case Domain::number: return dtype != DType::boolean;
    case Domain::any: break;
  }
  return true;
}

/// A second operand that broadcasts.
Shape row_of(const Shape& shape) { return shape.empty() ? shape : Shape{shape.back()}; }

template <class O> void compare_value(DeviceComparison& both, DType dtype) {
  constexpr bool kBinary = samples::is_binary<O>;
  const auto apply_operation = [](const Arrays& in) {
    if constexpr (kBinary)
      return Arrays{apply(O{}, in[0], in[1])};
    else
      return Arrays{apply(O{}, in[0])};
  };
  for (const Shape& shape : kShapes)
    for (const Numbers kind : {Numbers::plain, Numbers::positive, Numbers::special}) {
      Arrays inputs{numbers(shape, dtype, kind, 1)};
      if (kBinary) inputs.push_back(numbers(shape, dtype, kind, 2));
      both.compare_layouts(O::name, inputs, apply_operation);
      if (!kBinary) continue;
      inputs[1] = numbers(row_of(shape), dtype, kind, 3);
      both.compare(O::name, inputs, apply_operation);
      inputs[1] = numbers({}, dtype, Numbers::plain, 4);
      both.compare(O::name, {inputs[1], inputs[0]}, apply_operation);
    }
}

template <class O> void compare_gradient(DeviceComparison& both, DType dtype, Part part) {
  for (const Shape& shape : kShapes)
    for (const Numbers kind : {Numbers::plain, Numbers::positive, Numbers::special}) {
      Arrays inputs;
      if (O::needs == elementwise::Needs::inputs || O::needs == elementwise::Needs::output)
        inputs.push_back(numbers(shape, dtype, kind, 5));
      if (samples::is_binary<O> && O::needs == elementwise::Needs::inputs)
        inputs.push_back(numbers(shape, dtype, kind, 6));
      inputs.push_back(numbers(shape, dtype, Numbers::plain, 7));
      both.compare_layouts(std::string(O::name) + "'s gradient", inputs,
                           [part](const Arrays& in) { return Arrays{apply_gradient(O{}, part, in)}; });
    }
}

}  // namespace

void compare_elementwise(DeviceComparison& both) {
  elementwise::AllOperations::for_each([&]<class O>(std::type_identity<O>) {
    for (const DType dtype : kAllDTypes)
      if (takes<O>(dtype) && both.wants(O::name)) compare_value<O>(both, dtype);
  });
}

void compare_gradient_formulas(DeviceComparison& both) {
  elementwise::AllOperations::for_each([&]<class O>(std::type_identity<O>) {
    for (const DType dtype : kAllDTypes)
      if constexpr (elementwise::has_gradient_kernel<O>) {
        if (!is_floating(dtype) || !takes<O>(dtype) || !both.wants(O::name)) continue;
        if constexpr (samples::is_binary<O>) {
          compare_gradient<O>(both, dtype, Part::gradient_lhs);
          compare_gradient<O>(both, dtype, Part::gradient_rhs);
        } else {
          compare_gradient<O>(both, dtype, Part::gradient);
        }
      }
  });
}

}  // namespace tutti::testing
