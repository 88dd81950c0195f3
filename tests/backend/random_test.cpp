// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/random.h>

#include <tutti/backend/cpu_threads.h>
#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
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

template <class T> void check_draws(DType dtype, RandomCall::Kind kind) {
  constexpr std::uint64_t kTogether = Drawn<T>::kElements;
  for (const std::uint64_t offset : {0, 1, 2, 3, 1001}) {
    const RandomCall call{.kind = kind, .seed = 5, .stream = 9, .offset = offset, .a = -1, .b = 2};
    const Array array = Array::empty({17}, dtype, test_device());
    backend_for(test_device()).random(call, array);
    const auto found = array.to_vector<T>();
    for (std::uint64_t i = 0; i < found.size(); ++i)
      CHECK(found[i] == draw<T>(call, (offset + i) / kTogether).element[(offset + i) % kTogether]);
  }
}

TEST_CASE("an element is drawn by the formula that all devices share") {
  for (const auto kind : {RandomCall::Kind::uniform, RandomCall::Kind::normal}) {
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

}  // namespace
}  // namespace tutti
