// SPDX-License-Identifier: Apache-2.0
#pragma once

// Results and derivatives of operations on f32 at the ends of its range, beside those of the same formulas in f64, to
// which these numbers are nothing special.

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/tests/autodiff/leaves.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::range_ends {

using Operands = std::vector<Tensor>;
using Function = std::function<Tensor(const Operands&)>;

inline constexpr double kLargest = std::numeric_limits<float>::max();
inline constexpr double kSmallestNormal = std::numeric_limits<float>::min();

/// The smallest number, others below the normal ones and at both ends of these, zeros and infinities, of both signs.
inline Values numbers() {
  Values all;
  for (const float size : {0.0F, 1.4e-45F, 1e-40F, 1.2e-38F, 1e-30F, 1e-20F, 1e-10F, 1.0F, 1e10F, 1e20F, 1e30F, 1e38F,
                           3e38F, std::numeric_limits<float>::infinity()})
    for (const float sign : {1.0F, -1.0F}) all.push_back(static_cast<double>(sign * size));
  return all;
}

struct Part {
  std::string name;
  Values values;
};

inline Values in_f64(const Tensor& x) { return x.array().cast(DType::f64).to_vector<double>(); }

/// "value"; each operand's "gradient i" for an upstream gradient of 0.75, by kernels and composed; and, if `twice`, the
/// gradients of these, "second ij". What has no gradient is left out.
inline std::vector<Part> parts_of(const Function& f, const std::vector<Values>& operands, const Shape& shape,
                                  DType dtype, bool twice) {
  Operands leaves;
  for (const Values& values : operands)
    leaves.emplace_back(Array::from(values, shape, test_device()).cast(dtype), true);
  const Tensor y = f(leaves);
  std::vector<Part> parts{{"value", in_f64(y)}};
  const auto full = [](const Tensor& like, double value) {
    return std::vector{Tensor(Array::full(like.shape(), value, like.dtype(), like.device()))};
  };
  const auto add = [&](const std::string& name, const Tensor& gradient) {
    if (gradient.defined()) parts.push_back({name, in_f64(gradient)});
  };
  const auto fused = grad(y, leaves, {.retain_graph = true, .allow_unused = true, .gradients = full(y, 0.75)});
  const auto composed = grad(y, leaves, {.create_graph = true, .allow_unused = true, .gradients = full(y, 0.75)});
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const std::string name = "gradient " + std::to_string(i);
    add(name, fused[i]);
    add(name + ", composed", composed[i]);
    if (!twice || !composed[i].defined() || !composed[i].requires_grad()) continue;
    const auto second =
        grad(composed[i], leaves, {.retain_graph = true, .allow_unused = true, .gradients = full(composed[i], 1)});
    for (std::size_t j = 0; j < leaves.size(); ++j) add("second " + std::to_string(i) + std::to_string(j), second[j]);
  }
  return parts;
}

/// Whether f32 is as near to the exact result as it can be asked to be: but for `error`, or for the smallest normal
/// number, below which digits are lost, or all; infinite beyond the largest.
inline bool is_near(double found, double exact, double error) {
  if (std::isnan(exact)) return std::isnan(found);
  if (std::isinf(found) && std::signbit(found) == std::signbit(exact)) return std::abs(exact) > kLargest * (1 - 1e-5);
  return std::abs(found - exact) <= error + kSmallestNormal;
}

/// What is known to differ, and why: an operation's part, where `applies` to its operands there and to both results.
/// The test fails if nothing is met any more.
struct Exception {
  std::string_view operation;
  std::string_view part;  ///< its name's beginning
  std::string_view reason;
  std::function<bool(const Values& operands, double found, double exact)> applies;
  int met = 0;
};

enum class ErrorOf { each, largest };  ///< what rounding is measured by: an element, or the largest of the result

inline void check(std::string_view name, const Function& f, const std::vector<Values>& operands, const Shape& shape,
                  bool twice, ErrorOf error_of = ErrorOf::each, std::vector<Exception>* exceptions = nullptr) {
  const double tolerance = test_device().kind == DeviceKind::cpu ? 4e-6 : 1e-5;
  const std::vector<Part> found = parts_of(f, operands, shape, DType::f32, twice);
  const std::vector<Part> exact = parts_of(f, operands, shape, DType::f64, twice);
  REQUIRE(found.size() == exact.size());
  for (std::size_t p = 0; p < found.size(); ++p) {
    REQUIRE(found[p].values.size() == exact[p].values.size());
    double largest = 0;
    for (const double each : exact[p].values) largest = std::max(largest, std::abs(each));
    for (std::size_t i = 0; i < found[p].values.size(); ++i) {
      const double got = found[p].values[i];
      const double wanted = exact[p].values[i];
      if (is_near(got, wanted, tolerance * (error_of == ErrorOf::each ? std::abs(wanted) : largest))) continue;
      Values at;
      for (const Values& values : operands) at.push_back(values[i % values.size()]);
      const auto explains = [&](const Exception& each) {
        return each.operation == name && found[p].name.starts_with(each.part) && each.applies(at, got, wanted);
      };
      if (exceptions != nullptr) {
        const auto known = std::ranges::find_if(*exceptions, explains);
        if (known != exceptions->end()) {
          ++known->met;
          continue;
        }
      }
      std::string place;
      for (const double each : at) place += fmt::format(" {:g}", each);
      FAIL_CHECK(name << ": " << found[p].name << " at" << place << ": " << got << ", in f64 " << wanted);
    }
  }
}

inline void check_met(const std::vector<Exception>& exceptions) {
  for (const Exception& each : exceptions)
    CHECK_MESSAGE(each.met > 0, each.operation << ", " << each.part << ": nothing differs any more: " << each.reason);
}

}  // namespace tutti::range_ends
