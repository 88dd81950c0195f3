// SPDX-License-Identifier: Apache-2.0
// Made from the lists in backend/elementwise: values, gradients and second derivatives at the ends of f32's range.
#include <tutti/tests/autodiff/operations/elementwise_calls.h>
#include <tutti/tests/autodiff/operations/range_ends.h>

#include <doctest/doctest.h>

namespace tutti {
namespace {

using range_ends::ErrorOf;
using range_ends::Exception;
using range_ends::kSmallestNormal;
using range_ends::numbers;
using range_ends::Operands;

bool within_rounding_of_1(const Values&, double found, double exact) {
  return std::abs(found - exact) <= double{std::numeric_limits<float>::epsilon()};
}

std::vector<Exception> exceptions_of_unary() {
  constexpr std::string_view kCancels = "1 and numbers near 0 are added, and 1 is taken away again";
  return {{"asin", "second", kCancels, within_rounding_of_1},
          {"acos", "second", kCancels, within_rounding_of_1},
          {"atanh", "second", kCancels, within_rounding_of_1},
          {"sigmoid", "second", kCancels, within_rounding_of_1}};
}

/// 1e-20 - 1 is -1 in f64 too.
bool exponent_less_one_is_rounded(const Values& at, double, double) {
  return std::abs(at[1]) < 1e-8 || double{static_cast<float>(at[1]) - 1.0F} != at[1] - 1.0;
}

std::vector<Exception> exceptions_of_binary() {
  constexpr std::string_view kRounded =
      "b - 1 is rounded to another whole number or to one, or a^(b - 1) is beyond the range, whence a tiny b brings it";
  const auto too_small = [](double x) { return std::abs(x) < kSmallestNormal; };
  return {{"pow", "gradient 0", kRounded, exponent_less_one_is_rounded},
          {"pow", "second", kRounded, exponent_less_one_is_rounded},
          {"divide", "second", "1 / b, a step on the way, is beyond the range",
           [=](const Values& at, double, double) { return too_small(at[1]); }},
          {"pow", "second", "digits are lost in products of a, below the normal numbers, and brought back by 1 / a",
           [=](const Values& at, double, double) { return too_small(at[0]); }},
          {"atan2", "second", "1 / distance^2, of which a difference is taken, is beyond the range",
           [](const Values& at, double, double) { return std::hypot(at[0], at[1]) < 1e-19; }}};
}

TEST_CASE("elementwise: unary operations at the ends of f32's range are those of f64") {
  const Values x = numbers();
  std::vector<Exception> exceptions = exceptions_of_unary();
  ew::UnaryOperations::for_each([&]<class Operation>(std::type_identity<Operation>) {
    range_ends::check(
        Operation::name, [](const Operands& in) { return call(Operation{}, in[0]); }, {x},
        {static_cast<std::int64_t>(x.size())}, true, ErrorOf::each, &exceptions);
  });
  check_met(exceptions);
}

TEST_CASE("elementwise: binary operations at the ends of f32's range are those of f64") {
  Values a;
  Values b;
  for (const double first : numbers())
    for (const double second : numbers()) a.push_back(first), b.push_back(second);
  std::vector<Exception> exceptions = exceptions_of_binary();
  ew::BinaryOperations::for_each([&]<class Operation>(std::type_identity<Operation>) {
    if constexpr (kDifferentiable<Operation>)
      range_ends::check(
          Operation::name, [](const Operands& in) { return call(Operation{}, in[0], in[1]); }, {a, b},
          {static_cast<std::int64_t>(a.size())}, true, ErrorOf::each, &exceptions);
  });
  check_met(exceptions);
}

}  // namespace
}  // namespace tutti
