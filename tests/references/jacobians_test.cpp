// SPDX-License-Identifier: Apache-2.0
// Every operation of the table against central differences, first and second, at smooth points near its cases.
// An operation that has none is noticed. Elementwise operations have the same from their own lists, in
// tests/autodiff/elementwise_gradient_test.cpp.
#include <doctest/doctest.h>
#include <tutti/autodiff/gradcheck.h>
#include <tutti/autodiff/operations.h>
#include <tutti/tests/references/operations.h>
#include <tutti/tests/test_devices.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <map>
#include <optional>
#include <set>

using namespace tutti;
using namespace tutti::testing;

namespace {

// Two calls per element and direction, and the second derivatives of each: small cases are enough.
constexpr std::int64_t kMostElements = 600;

/// Whether all operations are smooth there: finite, not 0, no two elements equal.
bool is_smooth(std::vector<double> values) {
  std::ranges::sort(values);
  return std::ranges::none_of(values, [](double value) { return !std::isfinite(value) || value == 0; }) &&
         std::ranges::adjacent_find(values) == values.end();
}

/// In f64, and moved a little where it is not smooth: what is compared are derivatives of the same function.
Array smooth_values(const Array& x) {
  auto values = x.cast(DType::f64).to_vector<double>();
  if (!is_smooth(values))
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = (std::isfinite(values[i]) ? values[i] : 0.5) + 0.0013 * (static_cast<double>(i) + 1);
  return Array::from(values, x.shape(), test_device());
}

/// What one case is called with, and which of its inputs are differentiated.
struct Point {
  Call call;
  std::vector<Tensor> leaves;
  std::vector<std::size_t> places;
};

/// Nothing, if the case has nothing to differentiate, or too much.
std::optional<Point> point_of(const ReferenceCase& reference) {
  Point point{{{}, reference.attributes}, {}, {}};
  const Axes constants = reference.attributes.integers("constants");
  std::int64_t elements = 0;
  for (std::size_t place = 0; place < reference.inputs.size(); ++place) {
    const Array& input = reference.inputs[place];
    const bool constant = std::find(constants.begin(), constants.end(), std::int64_t(place)) != constants.end();
    if (!is_floating(input.dtype())) {
      point.call.x.emplace_back(input.to(test_device()));
      continue;
    }
    point.call.x.emplace_back(smooth_values(input), !constant);
    if (constant) continue;
    elements += input.size();
    point.leaves.push_back(point.call.x.back());
    point.places.push_back(place);
  }
  return elements > 0 && elements <= kMostElements ? std::optional(std::move(point)) : std::nullopt;
}

/// The results that have gradients, as one vector. Undefined, if central differences cannot tell: they are rounded to
/// another type, or infinite.
Tensor flat_results(const Operation& operation, const Point& point, const std::vector<Tensor>& leaves) {
  Call call = point.call;
  for (std::size_t i = 0; i < leaves.size(); ++i) call.x[point.places[i]] = leaves[i];
  std::vector<Tensor> parts;
  for (const Tensor& result : operation.run(call)) {
    if (!result.requires_grad()) continue;
    const auto values = result.cast(DType::f64).to_vector<double>();
    if (result.dtype() != DType::f64 || !std::ranges::all_of(values, [](double x) { return std::isfinite(x); }))
      return {};
    parts.push_back(reshape(result, {-1}));
  }
  return parts.empty() ? Tensor() : concatenate(parts);
}

std::map<std::string, std::vector<ReferenceCase>> cases_by_operation() {
  std::map<std::string, std::vector<ReferenceCase>> cases;
  for (const std::string& file : reference_files())
    for (ReferenceCase& reference : reference_cases(file)) cases[reference.operation].push_back(std::move(reference));
  return cases;
}

std::set<std::string> elementwise_names() {
  std::set<std::string> names;
  for (const Operation& operation : elementwise_operations()) names.insert(operation.name);
  return names;
}

}  // namespace

TEST_CASE("references: numeric Jacobians and Hessians of every operation") {
  const auto cases = cases_by_operation();
  const std::set<std::string> elementwise = elementwise_names();
  for (const Operation& operation : all_operations()) {
    if (elementwise.count(operation.name) > 0) continue;
    const auto found = cases.find(operation.name);
    REQUIRE_MESSAGE(found != cases.end(), operation.name);
    bool differentiable = false;
    int checked = 0;
    for (const ReferenceCase& reference : found->second) {
      if (reference.gradients.empty()) continue;
      differentiable = true;
      const auto point = point_of(reference);
      if (!point || checked == 3 || !flat_results(operation, *point, point->leaves).defined()) continue;
      ++checked;
      const auto f = [&](const std::vector<Tensor>& leaves) { return flat_results(operation, *point, leaves); };
      CAPTURE(reference.name);
      CHECK_NOTHROW(gradcheck(f, point->leaves));
      if (!reference.second_gradients.empty()) CHECK_NOTHROW(gradgradcheck(f, point->leaves));
    }
    CHECK_MESSAGE((!differentiable || checked > 0), operation.name, " has no smooth case to differentiate numerically");
  }
}
