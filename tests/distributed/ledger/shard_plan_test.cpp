// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/ledger/shard_plan.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;

namespace {

std::vector<SyncParameter> parameters_of(const std::vector<std::int64_t>& sizes, DType dtype = DType::f32) {
  std::vector<SyncParameter> parameters;
  for (const std::int64_t size : sizes) parameters.push_back({"p" + std::to_string(parameters.size()), {size}, dtype});
  return parameters;
}

// Every element has one owner, owners ascend in canonical order, and nobody has much more than anybody else.
void check_shares(const std::vector<SyncParameter>& parameters, std::size_t devices) {
  const ShardPlan plan(parameters, devices);
  for (const DType dtype : {DType::f32, DType::f64}) {
    std::vector<std::int64_t> shares(devices, 0);
    std::int64_t total = 0;
    MemberIndex last = 0;
    for (std::uint32_t id = 0; id < parameters.size(); ++id) {
      if (parameters[id].dtype != dtype) continue;
      std::int64_t next = 0;
      for (const ShardPlan::Piece& piece : plan.pieces_of({id})) {
        REQUIRE(piece.parameter == ParameterId{id});
        REQUIRE(piece.begin == next);
        REQUIRE(piece.end > piece.begin);
        REQUIRE(piece.owner >= last);
        REQUIRE(piece.owner < devices);
        last = piece.owner;
        next = piece.end;
        shares[piece.owner] += piece.size();
      }
      REQUIRE(next == element_count(parameters[id].shape));
      total += next;
    }
    const auto [least, most] = std::ranges::minmax(shares);
    const std::int64_t even = total / static_cast<std::int64_t>(devices);
    REQUIRE(most - least <= std::max<std::int64_t>(1, even / 8));
  }
  std::multiset<ParameterId> visited;
  for (const auto& lap : plan.laps(1024)) {
    REQUIRE_FALSE(lap.empty());
    for (const ParameterId id : lap) {
      REQUIRE(parameters[id.value].dtype == parameters[lap.front().value].dtype);
      visited.insert(id);
    }
  }
  for (std::uint32_t id = 0; id < parameters.size(); ++id)
    REQUIRE(visited.count({id}) == (element_count(parameters[id].shape) > 0 ? 1 : 0));
}

}  // namespace

TEST_CASE("shard_plan: every element has one owner, whatever the sizes, dtypes and number of devices") {
  std::mt19937 random(7);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<SyncParameter> parameters;
    const std::size_t count = random() % 12;
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t size = random() % 3 == 0 ? random() % 4 : random() % 3000;
      parameters.push_back({"p", {size}, random() % 4 == 0 ? DType::f64 : DType::f32});
    }
    check_shares(parameters, 1 + random() % 17);
  }
}

TEST_CASE("shard_plan: more devices than elements") {
  const ShardPlan plan(parameters_of({2, 0, 1}), 8);
  CHECK(plan.pieces_of({0}).size() == 2);
  CHECK(plan.pieces_of({1}).empty());
  CHECK(plan.owned_by(2) == std::vector<ShardPlan::Piece>{{{2}, 2, 0, 1}});
  CHECK(plan.owned_by(3).empty());
  CHECK(plan.bytes(0) == 4);
  CHECK(plan.bytes(7) == 0);
}

TEST_CASE("shard_plan: cuts inside a large parameter fall on cache lines") {
  const ShardPlan plan(parameters_of({10, 9001}), 3);
  for (const ShardPlan::Piece& piece : plan.pieces_of({1})) {
    if (piece.begin > 0) CHECK(piece.begin % 16 == 0);
  }
  CHECK(plan.pieces_of({1}).size() == 3);
}

TEST_CASE("shard_plan: what devices update at the same time is gathered together") {
  // Two devices own two parameters each: the first of both, then the second of both.
  const ShardPlan plan(parameters_of({400, 400, 400, 400}), 2);
  const std::vector<std::vector<ParameterId>> expected{{{0}, {2}}, {{1}, {3}}};
  CHECK(plan.laps(1600) == expected);
  CHECK(plan.laps(std::size_t{1} << 20).size() == 1);
  CHECK(plan.laps(0).size() == 4);
}

TEST_SUITE_END();
