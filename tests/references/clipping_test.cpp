// SPDX-License-Identifier: Apache-2.0
// Clipped gradients beside PyTorch's.
#include <doctest/doctest.h>
#include <tutti/optim/clip.h>
#include <tutti/tests/references/match.h>
#include <tutti/tests/references/reference_file.h>
#include <tutti/tests/test_devices.h>

#include <fmt/format.h>

using namespace tutti;
using namespace tutti::testing;

namespace {

using NamedValues = std::map<std::string, Array>;

std::vector<Tensor> parameters_with(const NamedValues& arrays, const std::string& gradients) {
  std::vector<Tensor> parameters;
  for (std::size_t i = 0; arrays.count(fmt::format("{}{}", gradients, i)) > 0; ++i) {
    const Array gradient = arrays.at(fmt::format("{}{}", gradients, i)).to(test_device()).copy();
    parameters.emplace_back(Array::zeros(gradient.shape(), gradient.dtype(), test_device()), true);
    GradientSlot& slot = parameters.back().gradient_slot();
    slot.gradient = gradient;
    slot.state = GradientState::accumulated;
  }
  return parameters;
}

/// That of f32 is PyTorch's rounding of norm and factor.
double tolerance_of(const Attributes& attributes) { return attributes.text("dtype") == "f64" ? 1e-12 : 4e-7; }

void compare(const NamedValues& arrays, const std::string& name, const Attributes& attributes) {
  CAPTURE(name);
  const auto parameters = parameters_with(arrays, attributes.text("dtype") + ".gradient");
  const double tolerance = tolerance_of(attributes);
  REQUIRE(parameters.size() > 1);
  if (name.starts_with("norm")) {
    const double norm = clip_grad_norm(parameters, attributes.number("limit"));
    const double expected = arrays.at(name + ".norm").cast(DType::f64).item<double>();
    CHECK(norm == doctest::Approx(expected).epsilon(tolerance));
  } else {
    clip_grad_value(parameters, attributes.number("limit"));
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Array& expected = arrays.at(fmt::format("{}.c{}", name, i));
    const std::string text = difference(expected, parameters[i].grad().array(), {.relative = tolerance});
    CHECK_MESSAGE(text.empty(), fmt::format("gradient {}: {}", i, text));
  }
}

}  // namespace

TEST_CASE("references: gradients clipped by norm and by value") {
  const NamedValues arrays = reference_arrays("clipping");
  const auto cases = reference_attributes("clipping");
  REQUIRE(cases.size() == 12);
  for (const auto& [name, attributes] : cases) compare(arrays, name, attributes);
}
