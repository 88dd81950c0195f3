// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/ledger/expected_buckets.h>

#include <doctest/doctest.h>

#include <vector>

using namespace tutti;

namespace {

/// Six parameters of 16 f32, 64 bytes each, "e" sparse, and "f" of f64.
std::shared_ptr<const GradientLayout> layout(std::vector<ParameterId> order = {{0}, {1}, {2}, {3}, {4}, {5}}) {
  const std::vector<SyncParameter> parameters{
      {"a", {16}}, {"b", {16}}, {"c", {16}}, {"d", {16}}, {"e", {16}, DType::f32, true}, {"f", {8}, DType::f64}};
  return std::make_shared<const GradientLayout>(parameters, order);
}

std::shared_ptr<const RequiredSet> required(std::vector<ParameterId> ids) {
  return std::make_shared<const RequiredSet>(std::move(ids));
}

}  // namespace

TEST_CASE("expected buckets: neighbours of one dtype that are short enough together") {
  ExpectedBuckets buckets(128);
  const auto all = required({{0}, {1}, {2}, {3}, {4}, {5}});
  buckets.update(layout(), all);
  CHECK(buckets.number_of({0}) == buckets.number_of({1}));
  CHECK(buckets.number_of({1}) != buckets.number_of({2}));
  CHECK(buckets.number_of({2}) == buckets.number_of({3}));
  CHECK(buckets.number_of({3}) != buckets.number_of({5}));
  CHECK(buckets.number_of({3}) != buckets.number_of({4}));
  CHECK(buckets.number_of({5}) != buckets.number_of({4}));
  buckets.update(layout({{0}, {2}, {1}, {3}, {4}, {5}}), all);
  CHECK(buckets.number_of({0}) == buckets.number_of({2}));
  CHECK(buckets.number_of({0}) != buckets.number_of({1}));
  CHECK(buckets.number_of({1}) == buckets.number_of({3}));
}

TEST_CASE("expected buckets: what is not required parts its neighbours") {
  ExpectedBuckets buckets(1 << 20);
  buckets.update(layout(), required({{0}, {1}, {3}}));
  CHECK(buckets.number_of({0}) == buckets.number_of({1}));
  CHECK(buckets.number_of({1}) != buckets.number_of({3}));
  ExpectedBuckets alone(0);
  alone.update(layout(), required({{0}, {1}, {3}}));
  CHECK(alone.number_of({0}) != alone.number_of({1}));
}
