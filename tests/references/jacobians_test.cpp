// SPDX-License-Identifier: Apache-2.0
// Every operation of the table against central differences, first and second, at smooth points near its cases.
// An operation that has none is noticed. Elementwise operations have the same at more shapes from their own lists, in
// tests/autodiff/operations/elementwise_gradient_test.cpp.
#include <doctest/doctest.h>
#include <tutti/autodiff/gradcheck.h>
#include <tutti/autodiff/operations.h>
#include <tutti/tests/references/operations.h>
#include <tutti/tests/sanitizers.h>
#include <tutti/tests/test_devices.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <vector>

using namespace tutti;
using namespace tutti::testing;

namespace {

// Two calls per element and direction, and the second derivatives of each: small cases are enough.
constexpr std::int64_t kMostElements = 250;

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
  std::string name;
  Call call;
  std::vector<Tensor> leaves;
  std::vector<std::size_t> places;
};

/// Nothing, if the case has nothing to differentiate, or too much.
std::optional<Point> point_of(const ReferenceCase& reference) {
  Point point{reference.name, {{}, reference.attributes}, {}, {}};
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

bool is_alike(const Point& a, const Point& b) {
  return a.call.attributes == b.call.attributes &&
         std::ranges::equal(a.call.x, b.call.x, {}, &Tensor::shape, &Tensor::shape);
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

/// Whether any result has a gradient when the floating inputs have.
bool has_gradient(const Operation& operation, const ReferenceCase& reference) {
  if (!reference.gradients.empty()) return true;
  Call call{{}, reference.attributes};
  for (const Array& input : reference.inputs) call.x.emplace_back(input.to(test_device()), is_floating(input.dtype()));
  return std::ranges::any_of(operation.run(call), [](const Tensor& result) { return result.requires_grad(); });
}

/// What is large, infinite or NaN makes differences coarse.
bool is_moderate(const ReferenceCase& reference) {
  return std::ranges::all_of(reference.inputs, [](const Array& input) {
    if (!is_floating(input.dtype())) return true;
    return std::ranges::all_of(input.cast(DType::f64).to_vector<double>(), [](double x) { return std::abs(x) < 10; });
  });
}

/// Of cases that differ in their types only, one; coarse ones if there are no others. What the file has no gradients of
/// is at the ends of a domain.
std::vector<Point> points_of(const Operation& operation, const std::vector<ReferenceCase>& cases) {
  std::vector<Point> points;
  for (const bool moderate : {true, false}) {
    for (const ReferenceCase& reference : cases) {
      if (reference.gradients.empty() || is_moderate(reference) != moderate) continue;
      auto point = point_of(reference);
      if (!point || !flat_results(operation, *point, point->leaves).defined()) continue;
      if (std::ranges::none_of(points, [&](const Point& other) { return is_alike(*point, other); }))
        points.push_back(std::move(*point));
    }
    if (!points.empty()) break;
  }
  return points;
}

std::string second_difference(const Operation& operation, const Point& point) {
  const auto f = [&](const std::vector<Tensor>& leaves) { return flat_results(operation, point, leaves); };
  try {
    gradgradcheck(f, point.leaves);
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

constexpr const char* kStep = "a step: its gradient is 0 and has no graph";
/// Operations whose second gradient cannot be compared, and why. They are tried all the same: one that can is too many.
const std::map<std::string, const char*> kNoSecondGradient{
    {"sign", kStep}, {"floor", kStep}, {"ceil", kStep}, {"round", kStep}, {"trunc", kStep}, {"floor_divide", kStep},
};

}  // namespace

// Under a sanitizer only first differences, of one point each: autodiff_test watches the same memory.
TEST_CASE("references: numeric Jacobians and Hessians of every operation") {
  const auto cases = cases_by_operation();
  std::size_t excepted = 0;
  for (const Operation& operation : all_operations()) {
    CAPTURE(operation.name);
    REQUIRE(cases.count(operation.name) == 1);
    const auto& own = cases.at(operation.name);
    auto points = points_of(operation, own);
    const bool differentiable =
        std::ranges::any_of(own, [&](const auto& each) { return has_gradient(operation, each); });
    CHECK_MESSAGE((!differentiable || !points.empty()), "it has no smooth case to differentiate numerically");
    if (kIsSanitized && !points.empty()) points.resize(1);
    std::string different;
    for (const Point& point : points) {
      CAPTURE(point.name);
      const auto f = [&](const std::vector<Tensor>& leaves) { return flat_results(operation, point, leaves); };
      CHECK_NOTHROW(gradcheck(f, point.leaves));
      if (different.empty() && !kIsSanitized) different = second_difference(operation, point);
    }
    const bool exception = kNoSecondGradient.count(operation.name) > 0;
    excepted += exception ? 1 : 0;
    if (exception && !kIsSanitized)
      CHECK_MESSAGE(!different.empty(), "its second gradient is right: no exception is needed");
    else
      CHECK_MESSAGE(different.empty(), different);
  }
  CHECK(excepted == kNoSecondGradient.size());
}
