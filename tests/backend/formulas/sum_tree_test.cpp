// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/formulas/sum_tree.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;

namespace {

using Numbers = std::vector<std::size_t>;

// The sum as it is bracketed, and how many sums there were at once.
struct Walked {
  std::string text;
  std::size_t sums = 0;
};

Walked walked(const Numbers& numbers) {
  std::vector<std::uint32_t> leaves;
  std::vector<std::uint8_t> joins;
  for (const std::size_t number : numbers) {
    leaves.push_back(static_cast<std::uint32_t>(number));
    joins.emplace_back();
    plan_leaf(leaves, joins);
  }
  std::vector<std::string> sums(kMostSums);
  Walked result;
  const auto leaf_text = [&](std::size_t leaf) { return std::to_string(numbers[leaf]); };
  const auto plus = [](const std::string& a, const std::string& b) { return "(" + a + "+" + b + ")"; };
  walk_sum_tree(
      joins.data(), numbers.size(),
      [&](std::size_t sum, std::size_t leaf) {
        result.sums = std::max(result.sums, sum + 1);
        sums.at(sum) = leaf_text(leaf);
      },
      [&](std::size_t sum, std::size_t leaf) {
        result.sums = std::max(result.sums, sum + 1);
        sums.at(sum) = plus(leaf_text(leaf), leaf_text(leaf + 1));
      },
      [&](std::size_t sum, std::size_t leaf) { sums.at(sum) = plus(sums.at(sum), leaf_text(leaf)); },
      [&](std::size_t sum, std::size_t next) { sums.at(sum) = plus(sums.at(sum), sums.at(next)); });
  result.text = sums.front();
  return result;
}

// The definition: numbers with one beginning in binary are a node.
std::string bracketed(const Numbers& numbers, int height = 16) {
  if (numbers.size() == 1) return std::to_string(numbers.front());
  Numbers halves[2];
  for (const std::size_t number : numbers) halves[number >> static_cast<unsigned>(height - 1) & 1U].push_back(number);
  for (const Numbers& half : halves)
    if (half.size() == numbers.size()) return bracketed(half, height - 1);
  return "(" + bracketed(halves[0], height - 1) + "+" + bracketed(halves[1], height - 1) + ")";
}

}  // namespace

TEST_CASE("sum_tree: numbers are summed in pairs, pairs of pairs, and so on") {
  CHECK(walked({0}).text == "0");
  CHECK(walked({0, 1}).text == "(0+1)");
  CHECK(walked({0, 1, 2}).text == "((0+1)+2)");
  CHECK(walked({0, 1, 2, 3}).text == "((0+1)+(2+3))");
  CHECK(walked({0, 1, 2, 3, 4, 5, 6}).text == "(((0+1)+(2+3))+((4+5)+6))");
}

TEST_CASE("sum_tree: who is silent changes no other sum than those that it was part of") {
  CHECK(walked({0, 1, 3}).text == "((0+1)+3)");
  CHECK(walked({1, 2, 3}).text == "(1+(2+3))");
  CHECK(walked({2, 3}).text == "(2+3)");
  CHECK(walked({0, 8, 12, 14, 15}).text == "(0+(8+(12+(14+15))))");
}

TEST_CASE("sum_tree: any devices of up to sixteen make the tree that is defined") {
  for (std::uint32_t present = 1; present < 1U << 16U; ++present) {
    Numbers numbers;
    for (std::size_t number = 0; number < 16; ++number)
      if ((present >> number & 1U) != 0) numbers.push_back(number);
    const Walked got = walked(numbers);
    if (got.text != bracketed(numbers) || got.sums > 5) FAIL(got.text << " in place of " << bracketed(numbers));
  }
}

TEST_CASE("sum_tree: the sums have room, in the largest group too") {
  Numbers every;
  for (std::size_t number = 0; number < kMostLeaves; ++number) every.push_back(number);
  CHECK(walked(every).sums == kMostSums);
  Numbers deepest;  // each is the last of a half that is left
  for (std::size_t i = 0; i <= kMostSums; ++i) deepest.push_back(kMostLeaves - (kMostLeaves >> i));
  CHECK(walked(deepest).sums == kMostSums);
  CHECK(walked(deepest).text == bracketed(deepest));
}

TEST_CASE("sum_tree: an aligned power of two of devices is a node, whoever else is there") {
  for (const std::size_t size : {2, 4, 8})
    for (std::size_t first = 0; first < 16; first += size) {
      Numbers block;
      Numbers all;
      for (std::size_t number = 0; number < 16; ++number) {
        all.push_back(number);
        if (number / size == first / size) block.push_back(number);
      }
      CHECK(walked(all).text.find(walked(block).text) != std::string::npos);
    }
}

TEST_SUITE_END();
