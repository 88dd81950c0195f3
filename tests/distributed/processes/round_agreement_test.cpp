// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/processes/round_agreement.h>

#include <tutti/backend/error.h>
#include <tutti/tests/distributed/ledger/ledger_driver.h>

#include <doctest/doctest.h>

#include <random>
#include <string>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr std::size_t kParameters = 11;
constexpr RoundAgreement::Model kModel{kParameters, 5, 9};

RoundAgreement process(int rank, const std::vector<std::uint32_t>& devices) { return {kModel, rank, devices}; }

/// Processes with some devices each, in one thread.
struct Processes {
  explicit Processes(const std::vector<std::uint32_t>& devices) {
    for (std::size_t rank = 0; rank < devices.size(); ++rank) all.push_back(process(static_cast<int>(rank), devices));
  }

  /// Exchanges what is needed. Every process's agreement, which are one.
  Agreement agree(const std::vector<Agree>& registered) {
    std::vector<Bytes> words;
    for (std::size_t rank = 0; rank < all.size(); ++rank) words.push_back(all[rank].words(registered[rank]));
    longest = 0;
    for (const Bytes& bytes : words) longest = std::max(longest, bytes.size());
    std::vector<std::optional<Agreement>> agreements;
    for (RoundAgreement& each : all) {
      each.hear_words(registered[0].generation, words);
      CHECK(each.model_difference().empty());
      agreements.push_back(each.agreed());
    }
    sets_exchanged = !agreements[0];
    if (sets_exchanged) {
      std::vector<Bytes> sets;
      for (std::size_t rank = 0; rank < all.size(); ++rank) sets.push_back(all[rank].sets(registered[rank]));
      for (std::size_t rank = 0; rank < all.size(); ++rank) {
        CHECK_FALSE(agreements[rank].has_value());
        agreements[rank] = all[rank].hear_sets(sets);
      }
    }
    for (const auto& each : agreements) {
      REQUIRE(each.has_value());
      CHECK(each->has_same_sets(*agreements[0]));
      CHECK(each->total_weight() == agreements[0]->total_weight());
    }
    return *agreements[0];
  }

  std::vector<RoundAgreement> all;
  bool sets_exchanged = false;
  std::size_t longest = 0;  ///< bytes
};

Agree::Registration device(const Ids& ids, double weight) { return {required_set(ids), weight, weight > 0, false}; }

std::string error_of(auto&& call) {
  try {
    call();
  } catch (const SyncError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("round_agreement: sets are exchanged when they are new to the processes, and never again") {
  Processes processes({1, 1});
  const std::vector<Agree> same{{1, {device({0, 1}, 2)}}, {1, {device({0, 1}, 3)}}};
  CHECK(processes.agree(same).total_weight() == 5.0);
  CHECK(processes.sets_exchanged);
  CHECK(processes.longest < 64);
  processes.agree(same);
  CHECK_FALSE(processes.sets_exchanged);
  const std::vector<Agree> other{{1, {device({0, 1}, 2)}}, {1, {device({1, 10}, 3)}}};
  const Agreement agreement = processes.agree(other);
  CHECK(processes.sets_exchanged);
  CHECK(agreement.weight({0}) == 2.0);
  CHECK(agreement.weight({1}) == 5.0);
  CHECK(agreement.contributors({10}) == std::vector<std::uint32_t>{1});
  processes.agree({{1, {device({1, 10}, 1)}}, {1, {device({0, 1}, 1)}}});
  CHECK_FALSE(processes.sets_exchanged);
}

TEST_CASE("round_agreement: any sets, weights and leaves of processes with several devices arrive as they are") {
  const std::vector<std::uint32_t> devices{2, 1, 3};
  Processes processes(devices);
  std::mt19937 random(7);
  for (std::int64_t generation = 1; generation < 300; ++generation) {
    std::vector<Agree> registered;
    std::vector<Agree::Registration> expected;
    for (const std::uint32_t count : devices) {
      registered.push_back({generation, {}});
      for (std::uint32_t i = 0; i < count; ++i) {
        Ids ids;
        for (std::uint32_t id = 0; id < kParameters; ++id)
          if (random() % 3 == 0) ids.push_back(id);
        Agree::Registration one = device(ids, random() % 4);
        if (random() % 8 == 0) one = {nullptr, 0.0, false, true};
        registered.back().registrations.push_back(one);
        expected.push_back(one);
      }
    }
    const Agreement agreement = processes.agree(registered);
    REQUIRE(agreement.registrations.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const Agreement::Registration& told = agreement.registrations[i];
      CHECK(told.weight == expected[i].weight);
      CHECK(told.contributes == expected[i].contributes);
      CHECK(told.left == expected[i].left);
      const RequiredSet none;
      const RequiredSet& required = expected[i].required ? *expected[i].required : none;
      CHECK(std::ranges::equal(agreement.sets[told.set]->parameters(), required.parameters()));
    }
  }
}

TEST_CASE("round_agreement: an order that rank 0 proposes comes to all with the sets, once") {
  Processes processes({1, 2});
  const std::vector<Agree> same{{1, {device({0, 1}, 2)}}, {1, {device({0, 1}, 3), device({0}, 1)}}};
  CHECK(processes.agree(same).order == nullptr);
  std::vector<ParameterId> order;
  for (std::uint32_t id = 0; id < kParameters; ++id) order.push_back({(id * 3) % std::uint32_t{kParameters}});
  processes.all[0].propose(order);
  const Agreement agreement = processes.agree(same);
  CHECK(processes.sets_exchanged);
  CHECK(processes.longest <= 32 + 2 * 24);  // not in the words
  REQUIRE(agreement.order != nullptr);
  CHECK(*agreement.order == order);
  CHECK(processes.agree(same).order == nullptr);
  CHECK_FALSE(processes.sets_exchanged);
  // Beside sets that are new, and in every process.
  processes.all[0].propose(order);
  const std::vector<Agree> other{{1, {device({2}, 2)}}, {1, {device({3}, 3), device({4}, 1)}}};
  std::vector<Bytes> words;
  std::vector<Bytes> sets;
  for (std::size_t rank = 0; rank < 2; ++rank) words.push_back(processes.all[rank].words(other[rank]));
  for (RoundAgreement& each : processes.all) each.hear_words(1, words);
  for (std::size_t rank = 0; rank < 2; ++rank) sets.push_back(processes.all[rank].sets(other[rank]));
  for (RoundAgreement& each : processes.all) {
    const Agreement heard = each.hear_sets(sets);
    REQUIRE(heard.order != nullptr);
    CHECK(*heard.order == order);
    CHECK(heard.weight({4}) == 1.0);
  }
}

TEST_CASE("round_agreement: an order that is none is refused, and one of too many parameters is not proposed") {
  const std::vector<std::uint32_t> devices{1, 1};
  const Agree mine{1, {device({0}, 1)}};
  const auto error_of_order = [&](std::size_t place, std::uint32_t value) {
    Processes processes(devices);
    std::vector<ParameterId> order;
    for (std::uint32_t id = 0; id < kParameters; ++id) order.push_back({id});
    order[place] = {value};
    processes.all[0].propose(order);
    return error_of([&] { processes.agree({mine, mine}); });
  };
  CHECK(error_of_order(3, 3).empty());
  CHECK(error_of_order(3, 4) ==
        "[sync] the order of gradients that rank 0 proposes has not each of 11 parameters once");
  CHECK(error_of_order(3, kParameters).find("proposes has not each") != std::string::npos);

  constexpr std::size_t kMany = RoundAgreement::kMostOrdered + 1;
  RoundAgreement large({kMany, 5, 9}, 0, {1});
  std::vector<ParameterId> order;
  for (std::uint32_t id = 0; id < kMany; ++id) order.push_back({id});
  large.propose(order);
  const std::vector<Bytes> words{large.words(mine)};
  large.hear_words(1, words);
  CHECK(large.hear_sets(std::vector<Bytes>{large.sets(mine)}).order == nullptr);
}

TEST_CASE("round_agreement: an order waits for a generation where few sets are new") {
  constexpr std::uint32_t kMany = RoundAgreement::kMostOrdered;
  RoundAgreement large({kMany, 5, 9}, 0, {40});
  std::vector<ParameterId> order;
  for (std::uint32_t id = 0; id < kMany; ++id) order.push_back({kMany - 1 - id});
  large.propose(order);
  Agree registered{1, {}};
  for (std::uint32_t number = 0; number < 40; ++number) registered.registrations.push_back(device({number}, 1));
  for (const bool fits : {false, true}) {
    large.hear_words(1, std::vector<Bytes>{large.words(registered)});
    CHECK_FALSE(large.agreed().has_value());
    const Bytes sets = large.sets(registered);
    CHECK(sets.size() < 60'000);
    const Agreement agreement = large.hear_sets(std::vector<Bytes>{sets});
    CHECK((agreement.order != nullptr) == fits);
    if (fits) CHECK(*agreement.order == order);
  }
  large.hear_words(1, std::vector<Bytes>{large.words(registered)});
  CHECK(large.agreed().has_value());
}

TEST_CASE("round_agreement: what does not fit names the rank") {
  const Agree mine{5, {device({0}, 1)}};
  const auto hear = [&](const Bytes& other) {
    RoundAgreement agreement = process(0, {1, 1});
    const std::vector<Bytes> words{agreement.words(mine), other};
    agreement.hear_words(5, words);
    CHECK_FALSE(agreement.agreed().has_value());
    return agreement.model_difference();
  };
  RoundAgreement peer = process(1, {1, 1});
  const Bytes good = peer.words(mine);
  CHECK(hear(good).empty());
  for (std::size_t length = 0; length < good.size(); ++length) {
    const std::string error =
        error_of([&] { static_cast<void>(hear(Bytes(good.begin(), good.begin() + std::ptrdiff_t(length)))); });
    CHECK(error.find("rank 1 said") != std::string::npos);
  }
  CHECK(error_of([&] {
          static_cast<void>(hear(peer.words({4, {device({0}, 1)}})));
        }) == "[sync] rank 1 is in generation 4, this process in 5");
  RoundAgreement larger({kParameters + 1, 5, 9}, 1, {1, 1});
  CHECK(hear(larger.words(mine)).starts_with("[sync] rank 1's replicas or options are not those of rank 0"));

  RoundAgreement other_values({kParameters, 5, 8}, 1, {1, 1});
  CHECK(hear(other_values.words(mine))
            .starts_with("[sync] rank 1's replicas begin with other values than those of rank 0"));
  RoundAgreement trains_nothing({kParameters, 5, 0}, 1, {1, 1});
  CHECK(hear(trains_nothing.words(mine)).empty());
  RoundAgreement changed({kParameters, 6, 9}, 1, {1, 1});
  CHECK(hear(changed.words(mine)).starts_with("[sync] rank 1's replicas or options are not those of rank 0"));

  RoundAgreement agreement = process(0, {1, 1});
  const std::vector<Bytes> words{agreement.words(mine), good};
  agreement.hear_words(5, words);
  Bytes wrong = agreement.sets(mine);
  wrong[0] ^= std::byte{2};
  CHECK(error_of([&] {
          agreement.hear_sets(std::vector<Bytes>{wrong, {}});
        }) == "[sync] what rank 0 says that device 0 of the group requires does not fit its words before");
  // The second device's set is the first one's: it is told once.
  CHECK(error_of([&] {
          agreement.hear_sets(std::vector<Bytes>{agreement.sets(mine), wrong});
        }).find("rank 1 said 2") != std::string::npos);
  CHECK(error_of([&] { agreement.hear_sets(std::vector<Bytes>{{}, {}}); }).find("rank 0 said 0") != std::string::npos);
}

TEST_SUITE_END();
