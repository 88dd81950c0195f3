// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <numbers>
#include <set>
#include <utility>

using namespace tutti;

namespace {

constexpr std::int64_t kMany = 40'000;

using Draw = std::function<Tensor(const Shape&, Generator&, const TensorOptions&)>;
using Share = std::function<double(double)>;  // P(X < x)

struct Distribution {
  const char* name;
  Draw draw;
  Share below;
};

const std::vector<Distribution>& distributions() {
  static const std::vector<Distribution> all{
      {"exponential", [](const Shape& s, Generator& g, const TensorOptions& o) { return exponential(s, g, 2.5, o); },
       [](double x) { return -std::expm1(-2.5 * x); }},
      {"gumbel", [](const Shape& s, Generator& g, const TensorOptions& o) { return gumbel(s, g, 1, 2, o); },
       [](double x) { return std::exp(-std::exp(-(x - 1) / 2)); }},
      {"laplace", [](const Shape& s, Generator& g, const TensorOptions& o) { return laplace(s, g, -1, 3, o); },
       [](double x) {
         const double z = (x + 1) / 3;
         return z < 0 ? 0.5 * std::exp(z) : 1 - 0.5 * std::exp(-z);
       }},
      {"cauchy", [](const Shape& s, Generator& g, const TensorOptions& o) { return cauchy(s, g, 2, 0.5, o); },
       [](double x) { return 0.5 + std::atan((x - 2) / 0.5) / std::numbers::pi; }},
      {"log_normal", [](const Shape& s, Generator& g, const TensorOptions& o) { return log_normal(s, g, 0.5, 0.7, o); },
       [](double x) { return 0.5 * std::erfc(-(std::log(x) - 0.5) / (0.7 * std::numbers::sqrt2)); }},
  };
  return all;
}

/// Kolmogorov and Smirnov: the largest difference from the distribution, times the root of the count. Above 2 it is in
/// 7 of 10 000 samples; those here are always the same.
double distance(std::vector<double> drawn, const Share& below) {
  std::sort(drawn.begin(), drawn.end());
  const auto n = static_cast<double>(drawn.size());
  double most = 0;
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const double share = below(drawn[i]);
    most = std::max({most, share - static_cast<double>(i) / n, static_cast<double>(i + 1) / n - share});
  }
  return most * std::sqrt(n);
}

std::vector<double> doubles(const Tensor& x) { return cast(x, DType::f64).to_vector<double>(); }

}  // namespace

TEST_CASE("random: options alone leave the usual parameters") {
  const TensorOptions f64{.dtype = DType::f64, .device = test_device()};
  const auto same = [](const Tensor& a, const Tensor& b) {
    CHECK(a.dtype() == DType::f64);
    CHECK(a.to_vector<double>() == b.to_vector<double>());
  };
  const auto twice = [&](const auto& by_options, const auto& by_parameters) {
    Generator first(3);
    Generator second(3);
    same(by_options(first), by_parameters(second));
  };
  twice([&](Generator& g) { return exponential({4}, g, f64); },
        [&](Generator& g) { return exponential({4}, g, 1, f64); });
  twice([&](Generator& g) { return gumbel({4}, g, f64); }, [&](Generator& g) { return gumbel({4}, g, 0, 1, f64); });
  twice([&](Generator& g) { return laplace({4}, g, f64); }, [&](Generator& g) { return laplace({4}, g, 0, 1, f64); });
  twice([&](Generator& g) { return cauchy({4}, g, f64); }, [&](Generator& g) { return cauchy({4}, g, 0, 1, f64); });
  twice([&](Generator& g) { return log_normal({4}, g, f64); },
        [&](Generator& g) { return log_normal({4}, g, 0, 1, f64); });
}

TEST_CASE("distributions: each is what it says, in every type") {
  for (const Distribution& each : distributions()) {
    CAPTURE(std::string(each.name));
    Generator random(11);
    for (const DType dtype : {DType::f64, DType::f32}) {
      const Tensor drawn = each.draw({kMany}, random, {.dtype = dtype, .device = test_device()});
      CHECK(drawn.dtype() == dtype);
      CHECK(distance(doubles(drawn), each.below) < 2);
    }
    CHECK(each.draw({2, 3}, random, {.device = test_device()}).dtype() == DType::f32);
    CHECK(each.draw({0, 3}, random, {.device = test_device()}).shape() == Shape{0, 3});
    CHECK(each.draw({2}, random, {.device = test_device(), .requires_grad = true}).requires_grad());
    CHECK_THROWS_WITH_AS(each.draw({2}, random, {.dtype = DType::i32}), doctest::Contains("draws floating types"),
                         DTypeError);
  }
}

TEST_CASE("distributions: the same for the same generator, whatever the type; other numbers from a split") {
  for (const Distribution& each : distributions()) {
    CAPTURE(std::string(each.name));
    const TensorOptions f64{.dtype = DType::f64, .device = test_device()};
    Generator first(3);
    Generator second(3);
    Generator child = Generator(3).split(0);
    const Tensor drawn = each.draw({50}, first, f64);
    CHECK(drawn.to_vector<double>() == each.draw({5, 10}, second, f64).to_vector<double>());
    CHECK(drawn.to_vector<double>() != each.draw({50}, first, f64).to_vector<double>());
    CHECK(drawn.to_vector<double>() != each.draw({50}, child, f64).to_vector<double>());
    Generator again(3);
    CHECK(cast(drawn, DType::f16).cast(DType::f32).to_vector<float>() ==
          each.draw({50}, again, {.dtype = DType::f16, .device = test_device()}).cast(DType::f32).to_vector<float>());
  }
}

TEST_CASE("distributions: moments") {
  Generator random(5);
  const TensorOptions f64{.dtype = DType::f64, .device = test_device()};
  const auto check = [](const Tensor& drawn, double expected_mean, double expected_variance) {
    const double error = 5 * std::sqrt(expected_variance / kMany);
    CHECK(mean(drawn).item<double>() == doctest::Approx(expected_mean).epsilon(error / std::abs(expected_mean)));
    CHECK(var(drawn).item<double>() == doctest::Approx(expected_variance).epsilon(0.1));
  };
  check(exponential({kMany}, random, 0.5, f64), 2, 4);
  check(gumbel({kMany}, random, 1, 1, f64), 1.5772156649015329, std::numbers::pi * std::numbers::pi / 6);
  check(laplace({kMany}, random, 1, 2, f64), 1, 8);
  check(gamma(full({kMany}, 3.5, f64), random), 3.5, 3.5);
}

TEST_CASE("distributions: numbers far out are drawn, and are finite") {
  Generator random(6);
  const Tensor drawn = exponential({1'000'000}, random, 1.0, {.device = test_device()});
  const double most = max(drawn).item<double>();
  CHECK(most > 10);
  CHECK(most < 37);
  CHECK(min(drawn).item<double>() >= 0);
}

TEST_CASE("gamma: concentrations below and above 1") {
  const auto erlang = [](int shape) {
    return [shape](double x) {
      double term = 1;
      double total = 0;
      for (int k = 0; k < shape; ++k) {
        total += term;
        term *= x / (k + 1);
      }
      return 1 - std::exp(-x) * total;
    };
  };
  Generator random(7);
  const auto check = [&](double concentration, const Share& below) {
    CAPTURE(concentration);
    for (const DType dtype : {DType::f64, DType::f32}) {
      const Tensor drawn = gamma(full({kMany}, concentration, {.dtype = dtype, .device = test_device()}), random);
      CHECK(drawn.dtype() == dtype);
      CHECK(distance(doubles(drawn), below) < 2);
    }
  };
  check(0.5, [](double x) { return std::erf(std::sqrt(x)); });
  check(1.5, [](double x) {
    return std::erf(std::sqrt(x)) - 2 / std::sqrt(std::numbers::pi) * std::sqrt(x) * std::exp(-x);
  });
  for (const int shape : {1, 2, 30}) check(shape, erlang(shape));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto odd = gamma(constant({-1, 0, nan, 1}, {4}), random).to_vector<double>();
  for (std::size_t i = 0; i < 3; ++i) CHECK(std::isnan(odd[i]));
  CHECK(odd[3] > 0);
  // Of a concentration of 1e-3 about half are below 1e-300.
  for (const auto& [dtype, smallest] : {std::pair(DType::f64, 0x1p-1022), std::pair(DType::f32, 0x1p-126),
                                        std::pair(DType::bf16, 0x1p-126), std::pair(DType::f16, 0x1p-14)}) {
    const Tensor tiny = gamma(full({100}, 1e-3, {.dtype = dtype, .device = test_device()}), random);
    CHECK(min(cast(tiny, DType::f64)).item<double>() == smallest);
  }
  CHECK_FALSE(gamma(leaf({2.0}), random).requires_grad());
  CHECK_THROWS_WITH_AS(gamma(index({1}, {1}), random), doctest::Contains("[gamma] concentrations are i64"), DTypeError);
}

TEST_CASE("randint: every integer as often, of each type, and no other") {
  Generator random(8);
  for (const DType dtype : {DType::i64, DType::i32, DType::i8}) {
    const Tensor drawn = randint({kMany}, random, -3, 4, {.dtype = dtype, .device = test_device()});
    CHECK(drawn.dtype() == dtype);
    const auto values = cast(drawn, DType::i64).to_vector<std::int64_t>();
    for (std::int64_t number = -4; number <= 4; ++number) {
      CAPTURE(number);
      const double expected = number < -3 || number > 3 ? 0.0 : kMany / 7.0;
      const auto count = static_cast<double>(std::count(values.begin(), values.end(), number));
      CHECK(std::abs(count - expected) <= 5 * std::sqrt(expected * 6 / 7));
    }
  }
  const std::int64_t far = std::int64_t{1} << 60;
  const auto wide = randint({1000}, random, far, far + (std::int64_t{1} << 53), {.device = test_device()});
  const auto values = wide.to_vector<std::int64_t>();
  CHECK(std::ranges::all_of(values, [&](std::int64_t x) { return x >= far && x - far < std::int64_t{1} << 53; }));
  CHECK(std::ranges::any_of(values, [](std::int64_t x) { return x % 2 != 0; }));
  CHECK(std::set<std::int64_t>(values.begin(), values.end()).size() == 1000);
  CHECK(randint({5}, random, 7, 8, {.device = test_device()}).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>(5, 7));
}

TEST_CASE("distributions: parameters that cannot be are refused by name") {
  Generator random(9);
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK_THROWS_WITH_AS(exponential({2}, random, 0.0), doctest::Contains("[exponential] the rate 0 is not positive"),
                       Error);
  CHECK_THROWS_WITH_AS(gumbel({2}, random, 0, -1), doctest::Contains("[gumbel] the scale -1"), Error);
  CHECK_THROWS_WITH_AS(laplace({2}, random, infinity, 1), doctest::Contains("[laplace] the location is inf"), Error);
  CHECK_THROWS_WITH_AS(cauchy({2}, random, 0, infinity), doctest::Contains("[cauchy] the scale"), Error);
  CHECK_THROWS_WITH_AS(log_normal({2}, random, 0, 0), doctest::Contains("[log_normal] the standard deviation"), Error);
  CHECK_THROWS_WITH_AS(randint({2}, random, 3, 3), doctest::Contains("[randint] there is no integer in [3, 3)"), Error);
  CHECK_THROWS_WITH_AS(randint({2}, random, 0, std::numeric_limits<std::int64_t>::max()),
                       doctest::Contains("has more than 2^53 integers"), Error);
  CHECK_THROWS_WITH_AS(randint({2}, random, 0, 300, {.dtype = DType::u8}), doctest::Contains("[randint]"), DTypeError);
  CHECK_THROWS_WITH_AS(randint({2}, random, 0, 3, {.dtype = DType::f32}), doctest::Contains("draws integers, not f32"),
                       DTypeError);
}
