// SPDX-License-Identifier: Apache-2.0
// Every elementwise operation on plain numbers: f32 against f64, and gradients against central differences.
#include <tutti/testing/devices/elementwise_samples.h>

#include <doctest/doctest.h>

#include <algorithm>

TEST_SUITE_BEGIN("cpu");

namespace tutti {
namespace {

using namespace samples;

template <class F> double central_difference(F&& f, double x) {
  constexpr double kStep = 1e-5;
  return (f(x + kStep) - f(x - kStep)) / (2 * kStep);
}

void check_close(double found, double expected, const char* name, double at) {
  CAPTURE(name);
  CAPTURE(at);
  CHECK(std::abs(found - expected) <= 1e-8 * std::max(1.0, std::abs(expected)));
}

TEST_CASE("scalar formulas agree in f32 and f64") {
  elementwise::UnaryOperations::for_each([]<class O>(std::type_identity<O>) {
    for (const float x : finite_floats()) {
      const double exact = O{}.value(static_cast<double>(x));
      if (!is_normal_f32(exact) || std::abs(x) > 80) continue;
      CAPTURE(O::name);
      CAPTURE(x);
      CHECK(std::abs(O{}.value(x) - exact) <= 4 * ulp_f32(error_scale<O>(exact, x)));
    }
  });
  elementwise::BinaryOperations::for_each([]<class O>(std::type_identity<O>) {
    if constexpr (takes_floating<O>)
      for (const float a : {-2.7F, 0.3F, 5.1F})
        for (const float b : finite_floats()) {
          const double exact = O{}.value(static_cast<double>(a), static_cast<double>(b));
          if (!is_normal_f32(exact)) continue;
          // That of logaddexp is of the size of its operands, and of log(2).
          const bool sum = std::is_same_v<O, elementwise::LogAddExp>;
          const double scale =
              sum ? std::max({1.0, std::abs(static_cast<double>(a)), std::abs(static_cast<double>(b))}) : exact;
          // Of floor_divide the neighbour, where f32 has halves only just: as in NumPy and PyTorch.
          const double step = std::is_same_v<O, elementwise::FloorDivide> ? 1.0 : 0.0;
          CAPTURE(O::name);
          CHECK(std::abs(O{}.value(a, b) - exact) <= std::max(step, ulp_f32(scale)));
        }
  });
}

TEST_CASE("scalar gradients agree with central differences") {
  elementwise::UnaryOperations::for_each([]<class O>(std::type_identity<O>) {
    static_assert(has_gradient<O>);
    for (const double x : kSmooth) {
      const double numeric = central_difference([](double at) { return O{}.value(at); }, x);
      if (std::isfinite(numeric)) check_close(gradient_of(O{}, x, 1.5), 1.5 * numeric, O::name, x);
    }
  });
  elementwise::BinaryOperations::for_each([]<class O>(std::type_identity<O>) {
    if constexpr (takes_floating<O> && has_gradient<O>)
      for (const double a : kSmooth)
        for (const double b : kSmooth) {
          if (a == b && O::needs == Needs::inputs) continue;  // the corner of maximum and minimum
          const double lhs = central_difference([=](double at) { return O{}.value(at, b); }, a);
          const double rhs = central_difference([=](double at) { return O{}.value(a, at); }, b);
          constexpr double kSteep = 1e3;  // a step, or NaN
          if (std::abs(lhs) < kSteep) check_close(gradient_lhs_of(O{}, a, b, 1.5), 1.5 * lhs, O::name, a);
          if (std::abs(rhs) < kSteep) check_close(gradient_rhs_of(O{}, a, b, 1.5), 1.5 * rhs, O::name, b);
        }
  });
}

TEST_CASE("corners have the documented gradients") {
  using namespace elementwise;
  CHECK(gradient_of(Abs{}, 0.0, 1.0) == 0.0);
  CHECK(gradient_of(Relu{}, 0.0, 1.0) == 0.0);
  CHECK(gradient_lhs_of(Maximum{}, 2.0, 2.0, 1.0) == 0.5);
  CHECK(gradient_rhs_of(Minimum{}, 2.0, 2.0, 1.0) == 0.5);
  CHECK(LeakyRelu{0.25}.value(-2.0) == -0.5);
}

TEST_CASE("maximum, minimum and relu propagate NaN") {
  using namespace elementwise;
  const double nan = std::nan("");
  CHECK(std::isnan(Maximum{}.value(nan, 1.0)));
  CHECK(std::isnan(Maximum{}.value(1.0, nan)));
  CHECK(std::isnan(Minimum{}.value(nan, 1.0)));
  CHECK(std::isnan(Minimum{}.value(1.0, nan)));
  CHECK(std::isnan(Relu{}.value(nan)));
}

TEST_CASE("floor division rounds down, and neither 0 nor the lowest integer trap") {
  constexpr auto divide = [](std::int32_t a, std::int32_t b) { return elementwise::FloorDivide{}.value(a, b); };
  constexpr auto kLowest = std::numeric_limits<std::int32_t>::lowest();
  for (const std::int32_t a : {-7, -6, -1, 0, 1, 6, 7})
    for (const std::int32_t b : {-4, -3, -2, -1, 1, 2, 3, 4})
      CHECK(divide(a, b) == static_cast<std::int32_t>(std::floor(static_cast<double>(a) / b)));
  CHECK(divide(5, 0) == 0);
  CHECK(divide(kLowest, 0) == 0);
  CHECK(divide(kLowest, -1) == kLowest);
  CHECK(elementwise::FloorDivide{}.value(1.0F, 0.1F) == 9);
}

TEST_CASE("integers wrap") {
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  constexpr auto kLowest = std::numeric_limits<std::int64_t>::lowest();
  CHECK(elementwise::Add{}.value(kMax, std::int64_t{1}) == kLowest);
  CHECK(elementwise::Subtract{}.value(kLowest, std::int64_t{1}) == kMax);
  CHECK(elementwise::Multiply{}.value(kMax, std::int64_t{2}) == -2);
  CHECK(elementwise::Negate{}.value(kLowest) == kLowest);
}

}  // namespace
}  // namespace tutti

TEST_SUITE_END();
