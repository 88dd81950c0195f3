// SPDX-License-Identifier: Apache-2.0
// The rules' kernels against their formulas for one element; the formulas themselves: tests/optim.
#include <tutti/backend/formulas/optimizer_rule_formulas.h>
#include <tutti/backend/registry.h>
#include <tutti/testing/devices/optimizer_rule_samples.h>

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <limits>

TEST_SUITE_BEGIN("cpu");

namespace tutti {
namespace {

using samples::kOptimizerRules;
using samples::rule_operands;

template <class T> void check_elements(const OptimizerRule& rule, std::int64_t size) {
  const std::vector<RuleOperands> operands{rule_operands(size, dtype_of<T>, 0), rule_operands(size, dtype_of<T>, 9)};
  std::vector<std::vector<std::vector<T>>> expected;
  visit_formula<T>(rule, [&]<class Formula>(const Formula& formula) {
    for (const RuleOperands& each : operands) {
      std::vector<std::vector<T>> arrays{each.parameter.to_vector<T>()};
      const auto gradient = each.gradient.to_vector<T>();
      for (const Array& state : each.state) arrays.push_back(state.template to_vector<T>());
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        std::array<T, Formula::kStates> own{};
        for (std::size_t s = 0; s < Formula::kStates; ++s) own[s] = arrays[s + 1][i];
        arrays[0][i] = formula(arrays[0][i], gradient[i], own.data());
        for (std::size_t s = 0; s < Formula::kStates; ++s) arrays[s + 1][i] = own[s];
      }
      expected.push_back(std::move(arrays));
    }
  });
  backend_for(cpu()).optimizer_step(rule, operands);
  for (std::size_t k = 0; k < operands.size(); ++k) {
    CHECK(operands[k].parameter.to_vector<T>() == expected[k][0]);
    for (std::size_t s = 0; s < RuleOperands::kMostStates; ++s)
      CHECK(operands[k].state[s].to_vector<T>() == expected[k][s + 1]);
  }
}

}  // namespace

TEST_CASE("optimizer_step: an element's step is the same by itself and in a pack, for every rule") {
  for (std::size_t rule = 0; rule < std::size(kOptimizerRules); ++rule)
    for (const std::int64_t size : {0, 1, 7, 16, 100, 40'003}) {
      CAPTURE(rule);
      CAPTURE(size);
      check_elements<float>(kOptimizerRules[rule], size);
      check_elements<double>(kOptimizerRules[rule], size);
    }
}

TEST_CASE("optimizer_step: NaN in a gradient shows in the parameter") {
  for (const OptimizerRule& rule : kOptimizerRules) {
    if (std::holds_alternative<LambDirection>(rule)) continue;  // leaves the parameter
    const RuleOperands operands[] = {rule_operands(3, DType::f32, 0)};
    operands[0].gradient.slice(0, 1, 2).fill(std::numeric_limits<double>::quiet_NaN());
    backend_for(cpu()).optimizer_step(rule, operands);
    const auto values = operands[0].parameter.to_vector<float>();
    CHECK_FALSE(std::isnan(values[0]));
    CHECK(std::isnan(values[1]));
    CHECK_FALSE(std::isnan(values[2]));
  }
}

TEST_CASE("optimizer_step: centered RMSprop of equal gradients takes no root of a negative number") {
  const RmspropStep step{.rate = 0.01, .alpha = 0.9, .centered = true};
  const Array zeros = Array::zeros({1000}, DType::f32, cpu());
  std::vector<float> gradient;
  for (int i = 0; i < 1000; ++i) gradient.push_back(0.1F + 0.01F * static_cast<float>(i));
  const RuleOperands operands[] = {
      {zeros.copy(), Array::from(gradient, {1000}, cpu()), {zeros.copy(), zeros.copy(), Array()}}};
  for (int round = 0; round < 300; ++round) backend_for(cpu()).optimizer_step(step, operands);
  for (const float value : operands[0].parameter.to_vector<float>()) CHECK(std::isfinite(value));
}

}  // namespace tutti

TEST_SUITE_END();
