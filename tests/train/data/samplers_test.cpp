// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/backend/error.h>
#include <tutti/backend/random.h>
#include <tutti/train/data/samplers.h>

#include <algorithm>
#include <cmath>
#include <limits>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;

TEST_CASE("samplers: sequential and shuffled visit each example once") {
  CHECK(sequential(4)->order(7) == std::vector<std::int64_t>{0, 1, 2, 3});
  const auto sampler = shuffled(100, 3);
  CHECK(sampler->draws() == 100);
  std::vector<std::int64_t> order = sampler->order(2);
  CHECK(order == Generator(3).split(2).permutation(100));  // positions that were kept stay good
  CHECK(order != sampler->order(3));
  std::ranges::sort(order);
  CHECK(order == sequential(100)->order(0));
}

TEST_CASE("samplers: with replacement every example is as likely, and draws are independent of each other") {
  const auto sampler = with_replacement(5, 20'000, 1);
  CHECK(sampler->examples() == 5);
  CHECK(sampler->draws() == 20'000);
  const std::vector<std::int64_t> order = sampler->order(0);
  REQUIRE(order.size() == 20'000);
  std::int64_t repeats = 0;
  for (std::int64_t example = 0; example < 5; ++example)
    CHECK(std::abs(std::ranges::count(order, example) - 4000) < 230);  // four standard deviations
  for (std::size_t i = 1; i < order.size(); ++i) repeats += order[i] == order[i - 1] ? 1 : 0;
  CHECK(std::abs(repeats - 4000) < 230);
  CHECK(order == with_replacement(5, 20'000, 1)->order(0));
  CHECK(order != sampler->order(1));
  CHECK(order != with_replacement(5, 20'000, 2)->order(0));
}

TEST_CASE("samplers: weighted draws follow the weights, and never take a weight of 0") {
  const std::vector<double> weights = {0.0, 3.0, 0.0, 1.0, 0.0};
  const std::vector<std::int64_t> order = weighted(weights, 40'000, 5)->order(0);
  CHECK(std::ranges::count(order, 1) + std::ranges::count(order, 3) == 40'000);
  CHECK(std::abs(std::ranges::count(order, 1) - 30'000) < 350);
  CHECK(weighted({0.0, 1e-300, 0.0}, 100, 1)->order(0) == std::vector<std::int64_t>(100, 1));
}

TEST_CASE("samplers: descriptions differ where orders do") {
  CHECK(shuffled(9, 1)->description() != shuffled(9, 2)->description());
  CHECK(with_replacement(9, 5, 1)->description() != with_replacement(9, 6, 1)->description());
  CHECK(weighted({1, 2}, 5, 1)->description() == weighted({1, 2}, 5, 1)->description());
  CHECK(weighted({1, 2}, 5, 1)->description() != weighted({2, 1}, 5, 1)->description());
}

TEST_CASE("samplers: nonsense is refused") {
  CHECK_THROWS_AS(sequential(0), Error);
  CHECK_THROWS_AS(shuffled(-1, 1), Error);
  CHECK_THROWS_AS(with_replacement(3, 0, 1), Error);
  CHECK_THROWS_AS(weighted({}, 3, 1), Error);
  CHECK_THROWS_AS(weighted({0, 0}, 3, 1), Error);
  CHECK_THROWS_AS(weighted({1, -1}, 3, 1), Error);
  CHECK_THROWS_AS(weighted({1, std::nan("")}, 3, 1), Error);
  CHECK_THROWS_AS(weighted({1e308, 1e308}, 3, 1), Error);
}

TEST_SUITE_END();
