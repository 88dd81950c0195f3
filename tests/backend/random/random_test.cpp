// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/random.h>

#include <tutti/backend/cpu_threads.h>
#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <set>

namespace tutti {
namespace {

constexpr std::int64_t kMany = 200'000;

TEST_CASE("Philox gives the known answers of the Random123 distribution") {
  const auto words = [](const Philox& block) { return std::vector<std::uint32_t>(block.word, block.word + 4); };
  CHECK(words(philox(0, 0, 0)) == std::vector<std::uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(words(philox(~0ULL, ~0ULL, ~0ULL)) ==
        std::vector<std::uint32_t>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  // Counter 243f6a88 85a308d3 13198a2e 03707344, key a4093822 299f31d0.
  CHECK(words(philox(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88)) ==
        std::vector<std::uint32_t>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

template <class T> void check_moments(const std::vector<T>& values, double mean, double deviation, double kurtosis) {
  const double n = static_cast<double>(values.size());
  double sum = 0;
  for (const T x : values) sum += x;
  double square = 0;
  double cube = 0;
  double fourth = 0;
  for (const T x : values) {
    const double z = (x - mean) / deviation;
    square += z * z;
    cube += z * z * z;
    fourth += z * z * z * z;
  }
  CHECK(std::abs(sum / n - mean) < 5 * deviation / std::sqrt(n));
  CHECK(square / n == doctest::Approx(1).epsilon(0.02));
  CHECK(std::abs(cube / n) < 0.05);
  CHECK(fourth / n == doctest::Approx(kurtosis).epsilon(0.04));
}

TEST_CASE("uniform numbers stay in range and have the right moments") {
  Generator random(42);
  const auto f32 = random.uniform({kMany}, DType::f32, test_device(), -2, 3).to_vector<float>();
  const auto f64 = random.uniform({kMany}, DType::f64, test_device()).to_vector<double>();
  for (const float x : f32) REQUIRE((x >= -2 && x < 3));
  for (const double x : f64) REQUIRE((x >= 0 && x < 1));
  check_moments(f32, 0.5, 5 / std::sqrt(12.0), 1.8);
  check_moments(f64, 0.5, 1 / std::sqrt(12.0), 1.8);
  CHECK_THROWS_AS(random.uniform({2}, DType::f32, test_device(), 1, 0), Error);
  CHECK_THROWS_AS(random.uniform({2}, DType::i32, test_device()), DTypeError);
}

TEST_CASE("normal numbers are finite and have the right moments") {
  Generator random(43);
  const auto f32 = random.normal({kMany}, DType::f32, test_device(), 1, 2).to_vector<float>();
  const auto f64 = random.normal({kMany}, DType::f64, test_device()).to_vector<double>();
  for (const float x : f32) REQUIRE(std::isfinite(x));
  for (const double x : f64) REQUIRE(std::isfinite(x));
  check_moments(f32, 1, 2, 3);
  check_moments(f64, 0, 1, 3);
  CHECK_THROWS_AS(random.normal({2}, DType::f32, test_device(), 0, -1), Error);
}

TEST_CASE("a draw is a function of seed and position: not of shape, split or threads") {
  const auto whole = Generator(7).uniform({1000}, DType::f32, test_device()).to_vector<float>();
  CHECK(Generator(7).uniform({10, 100}, DType::f32, test_device(1)).to_vector<float>() == whole);
  CHECK(Generator(8).uniform({1000}, DType::f32, test_device()).to_vector<float>() != whole);

  Generator parts(7);
  std::vector<float> joined;
  for (const std::int64_t count : {1, 2, 3, 7, 0, 87, 900}) {
    const auto part = parts.uniform({count}, DType::f32, test_device()).to_vector<float>();
    joined.insert(joined.end(), part.begin(), part.end());
  }
  CHECK(joined == whole);

  if (!tests_run_on_cpu()) return;
  const auto one = Generator(9).normal({kMany}, DType::f32, cpu(7)).to_vector<float>();
  const int before = cpu_threads(cpu(7));
  set_cpu_threads(cpu(7), 3);
  CHECK(Generator(9).normal({kMany}, DType::f32, cpu(7)).to_vector<float>() == one);
  set_cpu_threads(cpu(7), before);
}

TEST_CASE("host integers and splits") {
  Generator random(5);
  std::vector<int> counts(10);
  for (int i = 0; i < 20000; ++i) ++counts.at(random.below(10));
  for (const int count : counts) CHECK(std::abs(count - 2000) < 250);  // 5.9 standard deviations
  CHECK(random.below(1) == 0);
  CHECK_THROWS_AS(random.below(0), Error);

  const Generator source(5);
  std::set<std::uint64_t> seen;
  for (std::uint64_t i = 0; i < 100; ++i) {
    Generator split = source.split(i);
    for (int j = 0; j < 10; ++j) seen.insert(split.next_u64());
    seen.insert(split.split(0).next_u64());
  }
  CHECK(seen.size() == 1100);
  CHECK(Generator(source).split(3).next_u64() == Generator(5).split(3).next_u64());
}

/// A CUDA device's own logarithm, sine and cosine may differ in the last bits, relative to the numbers that are added:
/// the mean, which is -1, and the rest.
template <class T> double allowed_error(RandomCall::Kind kind, T expected) {
  if (kind == RandomCall::Kind::uniform || test_device().kind != DeviceKind::cuda) return 0;
  return (sizeof(T) == 4 ? 1e-6 : 1e-14) * std::max(1.0, std::abs(static_cast<double>(expected)));
}

template <class T> void check_draws(DType dtype, RandomCall::Kind kind) {
  constexpr std::uint64_t kTogether = Drawn<T>::kElements;
  for (const std::uint64_t offset : {0, 1, 2, 3, 1001}) {
    const RandomCall call{.kind = kind, .seed = 5, .stream = 9, .offset = offset, .a = -1, .b = 2};
    const Array array = Array::empty({17}, dtype, test_device());
    backend_for(test_device()).random(call, array);
    const auto found = array.to_vector<T>();
    for (std::uint64_t i = 0; i < found.size(); ++i) {
      const T expected = draw<T>(call, (offset + i) / kTogether).element[(offset + i) % kTogether];
      CHECK(std::abs(static_cast<double>(found[i]) - static_cast<double>(expected)) <= allowed_error(kind, expected));
    }
  }
}

TEST_CASE("an element is drawn by the formula that all devices share") {
  for (const auto kind : {RandomCall::Kind::uniform, RandomCall::Kind::normal, RandomCall::Kind::truncated_normal}) {
    check_draws<float>(DType::f32, kind);
    check_draws<double>(DType::f64, kind);
  }
  // By hand, from the documented bits.
  const RandomCall call{.seed = 5, .stream = 9, .a = -1, .b = 2};
  const Philox bits = philox(5, 9, 3);
  for (int i = 0; i < 4; ++i)
    CHECK(draw<float>(call, 3).element[i] == static_cast<float>(-1 + 3 * ((bits.word[i] >> 8U) * 0x1p-24)));
  const std::uint64_t high = bits.word[2] | static_cast<std::uint64_t>(bits.word[3]) << 32U;
  CHECK(draw<double>(call, 3).element[1] == -1 + 3 * (static_cast<double>(high >> 11U) * 0x1p-53));
}

double share_below(double z) { return std::erfc(-z / std::sqrt(2.0)) / 2; }

TEST_CASE("normal_quantile: percentage points, and the inverse of the distribution") {
  CHECK(normal_quantile(0.5) == 0);
  // AS 241's own test values.
  CHECK(normal_quantile(0.25) == doctest::Approx(-0.6744897501960817).epsilon(1e-15));
  CHECK(normal_quantile(0.001) == doctest::Approx(-3.090232306167814).epsilon(1e-15));
  CHECK(normal_quantile(1e-20) == doctest::Approx(-9.262340089798408).epsilon(1e-15));
  for (double z = -37; z < 5; z += 0.0625) {
    CAPTURE(z);
    CHECK(normal_quantile(share_below(z)) == doctest::Approx(z).epsilon(z < 0 ? 1e-14 : 1e-9));
  }
}

/// Mean and variance within what their estimates scatter: Johnson, Kotz, "Continuous Univariate Distributions" (1970).
template <class T> void check_truncated(double mean, double deviation, double low, double high) {
  CAPTURE(low);
  CAPTURE(high);
  Generator random(17);
  const Array drawn = random.truncated_normal({kMany}, dtype_of<T>, test_device(), mean, deviation, low, high);
  const std::vector<T> values = drawn.to_vector<T>();
  const auto density = [](double z) { return std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi); };
  const double a = (low - mean) / deviation;
  const double b = (high - mean) / deviation;
  const double inside = b < 0 ? share_below(b) - share_below(a) : share_below(-a) - share_below(-b);
  const double at_a = std::isinf(a) ? 0 : a * density(a);
  const double at_b = std::isinf(b) ? 0 : b * density(b);
  const double shift = (density(a) - density(b)) / inside;
  const double variance = deviation * deviation * (1 + (at_a - at_b) / inside - shift * shift);
  double sum = 0;
  double squares = 0;
  for (const T x : values) {
    REQUIRE((x >= static_cast<T>(low) && x <= static_cast<T>(high)));
    sum += x;
    squares += (x - mean - deviation * shift) * (x - mean - deviation * shift);
  }
  CHECK(std::abs(sum / kMany - mean - deviation * shift) < 5 * std::sqrt(variance / kMany));
  CHECK(squares / kMany == doctest::Approx(variance).epsilon(0.03));
}

TEST_CASE("truncated normal numbers have the moments of the truncated distribution") {
  const double infinity = std::numeric_limits<double>::infinity();
  check_truncated<float>(0, 1, -2, 2);
  check_truncated<double>(1, 0.5, -1, 1.25);
  check_truncated<float>(0, 1, -infinity, infinity);
  check_truncated<float>(0, 1, 0.5, infinity);
  check_truncated<double>(0, 1, 9, 10);  // far out, where 1 - P(Z < z) is all rounding
  check_truncated<double>(-3, 2, -30, -25);
  Generator random(1);
  const Array narrow = random.truncated_normal({5000}, DType::bf16, test_device(), 0, 1, -1, 1);
  for (const float x : narrow.cast(DType::f32).to_vector<float>()) REQUIRE(std::abs(x) <= 1);
  CHECK_THROWS_AS(random.truncated_normal({1}, DType::f32, test_device(), 0, 0, -1, 1), Error);
  CHECK_THROWS_AS(random.truncated_normal({1}, DType::f32, test_device(), 0, 1, 1, 1), Error);
  CHECK_THROWS_AS(random.truncated_normal({1}, DType::f32, test_device(), 0, 1, 100, 101), Error);
  CHECK_THROWS_AS(random.truncated_normal({1}, DType::i32, test_device(), 0, 1, -1, 1), DTypeError);
}

TEST_CASE("bernoulli: true as often as asked") {
  Generator random(6);
  const auto values = random.bernoulli({kMany}, 0.3, test_device()).to_vector<bool>();
  const auto count = static_cast<double>(std::count(values.begin(), values.end(), true));
  CHECK(std::abs(count - 0.3 * kMany) < 5 * std::sqrt(kMany * 0.21));
  CHECK_FALSE(random.bernoulli({}, 0, test_device()).item<bool>());
  CHECK(random.bernoulli({}, 1, test_device()).item<bool>());
  CHECK_THROWS_AS(random.bernoulli({}, 1.5, test_device()), Error);
}

}  // namespace
}  // namespace tutti
