// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/backend/memory/memory_pool.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/autodiff/leaves.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

using namespace tutti;

namespace {

Tensor ones(std::int64_t count, DType dtype = DType::f32) {
  return Tensor(Array::full({count}, 1, dtype, test_device()), true);
}

}  // namespace

TEST_CASE("dropout keeps the mean, and drops as many as it should") {
  constexpr std::int64_t kCount = 100'000;
  Generator random(3);
  for (const double p : {0.1, 0.25, 0.5, 0.9}) {
    CAPTURE(p);
    const auto values = dropout(ones(kCount), p, random).to_vector<float>();
    const auto dropped = std::count(values.begin(), values.end(), 0.0F);
    const double deviation = std::sqrt(kCount * p * (1 - p));
    CHECK(std::abs(static_cast<double>(dropped) - kCount * p) < 5 * deviation);
    for (const float x : values) REQUIRE((x == 0 || x == doctest::Approx(1 / (1 - p))));
  }
}

TEST_CASE("dropout: neighbours are dropped independently") {
  Generator random(4);
  const auto values = dropout(ones(100'000), 0.5, random).to_vector<float>();
  for (const std::size_t distance : {std::size_t{1}, std::size_t{2}, std::size_t{4}, std::size_t{256}}) {
    CAPTURE(distance);
    std::int64_t both = 0;
    for (std::size_t i = distance; i < values.size(); ++i) both += values[i] == 0 && values[i - distance] == 0;
    CHECK(std::abs(static_cast<double>(both) - 25'000) < 5 * std::sqrt(100'000 * 0.25 * 0.75));
  }
}

TEST_CASE("dropout: the ends, and evaluation") {
  Generator random(5);
  const Tensor x = ones(64);
  CHECK(dropout(x, 0, random).is_same(x));
  CHECK(dropout(x, 0.5, random, false).is_same(x));
  CHECK(random.next_u64() == Generator(5).next_u64());  // nothing was drawn
  const Tensor all = dropout(x, 1, random);
  CHECK(all.to_vector<float>() == std::vector<float>(64, 0));
  backward(sum(all));
  CHECK(x.grad().to_vector<float>() == std::vector<float>(64, 0));
}

TEST_CASE("dropout: the gradient passes where the value did") {
  Generator random(6);
  const Tensor x = ones(1000);
  const Tensor y = dropout(x, 0.3, random);
  backward(sum(y));
  CHECK(x.grad().to_vector<float>() == y.to_vector<float>());
  check_gradients(
      [](const std::vector<Tensor>& in) {
        Generator fixed(7);
        return dropout(square(in[0]), 0.4, fixed);
      },
      {spread({3, 4}, 1)});
}

TEST_CASE("dropout keeps its result and a byte for each element, no more") {
  Generator random(6);
  const auto in_use = [] {
    synchronize(test_device());
    return memory_pool(test_device()).statistics().in_use;
  };
  const Tensor x = ones(100'000);
  const std::size_t before = in_use();
  const Tensor y = dropout(x, 0.5, random);
  CHECK(in_use() - before < 520'000);
  CHECK(in_use() - before >= 500'000);
}

TEST_CASE("dropout: one mask for all dtypes, a new one each time") {
  const auto kept = [](DType dtype, std::uint64_t seed) {
    Generator random(seed);
    return cast(dropout(ones(500, dtype), 0.5, random), DType::boolean).to_vector<bool>();
  };
  CHECK(kept(DType::f32, 8) == kept(DType::f64, 8));
  CHECK(kept(DType::f32, 8) == kept(DType::bf16, 8));
  CHECK(kept(DType::f32, 8) != kept(DType::f32, 9));
  Generator random(8);
  const auto first = dropout(ones(500), 0.5, random).to_vector<float>();
  CHECK(dropout(ones(500), 0.5, random).to_vector<float>() != first);
}

TEST_CASE("dropout: what is dropped is 0, whatever it was") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Generator random(9);
  const Tensor x(Array::full({100}, nan, DType::f32, test_device()), true);
  const Tensor y = dropout(x, 0.5, random);
  const auto values = y.to_vector<float>();
  CHECK(std::count(values.begin(), values.end(), 0.0F) > 30);
}

TEST_CASE("dropout refuses what it cannot do") {
  Generator random(1);
  CHECK_THROWS_WITH_AS(dropout(ones(2), -0.1, random), doctest::Contains("[dropout] p is -0.1: it must be in [0, 1]"),
                       Error);
  CHECK_THROWS_AS(dropout(ones(2), 1.5, random), Error);
  CHECK_THROWS_AS(dropout(ones(2), std::nan(""), random, false), Error);
  CHECK_THROWS_AS(dropout(index({1}, {1}), 0.5, random), DTypeError);
}

TEST_CASE("dropout: what is dropped is 0 where the factor is infinite in the type") {
  Generator random(5);
  const Tensor x = ones(64, DType::f16);
  const Tensor y = dropout(x, 0.999999, random);
  backward(sum(cast(y, DType::f32)));
  for (const Tensor& each : {y, x.grad()})
    for (const double value : cast(each, DType::f64).to_vector<double>()) CHECK(value == 0);
}
