// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/ledger/sync_ledger.h>

#include <tutti/tests/distributed/ledger/ledger_driver.h>
#include <tutti/tests/distributed/ledger/original_server_model.h>

#include <doctest/doctest.h>

#include <set>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;
using Kind = Fault::Kind;

TEST_CASE("sync_ledger: launches when all have registered and every device that requires it has submitted") {
  LedgerDriver d(2, 2);
  d.begin(0, 1, {0, 1});
  d.submit(0, 1, 1);
  d.begin(1, 1, {0, 1});
  CHECK(d.launched(1).empty());
  d.submit(1, 1, 1);
  CHECK(d.launched(1) == Ids{1});
  d.submit(1, 1, 0);
  d.submit(0, 1, 0);
  CHECK(d.launched(1) == Ids{1, 0});
  d.sync(0, 1);
  CHECK_FALSE(d.released(1));
  d.sync(1, 1);
  CHECK(d.released(1));
}

TEST_CASE("sync_ledger: the launch condition is looked at again at the last registration") {
  LedgerDriver d(2, 1);
  d.begin(0, 1, {0});
  d.submit(0, 1, 0);
  d.sync(0, 1);
  CHECK(d.launched(1).empty());
  d.begin(1, 1, {});
  CHECK(d.launched(1) == Ids{0});
  CHECK_FALSE(d.released(1));
  d.sync(1, 1);
  CHECK(d.released(1));
}

TEST_CASE("sync_ledger: no device is released before every requirement of any device is launched") {
  LedgerDriver d(3, 2);
  d.step(0, 1, {});
  d.step(1, 1, {0});
  d.begin(2, 1, {0, 1});
  d.submit(2, 1, 0);
  CHECK(d.launched(1) == Ids{0});
  CHECK_FALSE(d.released(1));
  d.submit(2, 1, 1);
  CHECK_FALSE(d.released(1));
  d.sync(2, 1);
  CHECK(d.all<Release>().size() == 1);
}

// First traced deadlock of the original server: B is a round ahead while A has not synced.
TEST_CASE("sync_ledger: the original's rules deadlock when a device is a round ahead; ours do not") {
  OriginalServerModel original(2);
  constexpr int kA = 0;
  constexpr int kB = 1;
  original.register_parameters({0});  // B, round 1
  original.submit(0, 10);
  original.register_parameters({0});  // A, round 1
  original.submit(0, 11);
  original.collective_sync(kB);
  CHECK_FALSE(original.waits(kB));    // released: B goes on
  original.register_parameters({0});  // B, round 2
  original.submit(0, 20);
  original.collective_sync(kB);
  original.collective_sync(kA);  // round 1
  CHECK(original.waits(kA));
  CHECK(original.waits(kB));  // for ever

  LedgerDriver d(2, 1);
  d.begin(1, 1, {0});
  d.submit(1, 1, 0);
  d.begin(0, 1, {0});
  d.submit(0, 1, 0);
  d.sync(1, 1);
  CHECK_FALSE(d.released(1));  // B is held until A has committed too
  d.sync(0, 1);
  CHECK(d.released(1));
  d.step(1, 2, {0});
  CHECK_FALSE(d.released(2));
  d.step(0, 2, {0});
  CHECK(d.released(2));
}

// Second: a device that is released without parameters lets rounds pair up wrongly.
TEST_CASE("sync_ledger: the original's rules reduce a gradient alone; ours pair rounds") {
  OriginalServerModel original(2);
  original.register_parameters({});  // B, round 1: nothing required
  original.collective_sync(1);
  CHECK_FALSE(original.waits(1));     // released before A was heard of
  original.register_parameters({0});  // B, round 2
  original.submit(0, 20);
  REQUIRE(original.reduced.size() == 1);
  CHECK(original.reduced[0] == std::vector<int>{20});  // no average, no hang

  LedgerDriver d(2, 1);
  d.step(1, 1, {});
  CHECK_FALSE(d.released(1));
  d.step(0, 1, {0});
  CHECK(d.released(1));
  d.step(1, 2, {0});
  CHECK(d.launched(2).empty());
  d.step(0, 2, {0});
  CHECK(d.launched(2) == Ids{0});
}

TEST_CASE("sync_ledger: messages that do not fit fail the group with member, parameter and generation") {
  const auto fault_of = [](auto&& act) {
    LedgerDriver d(2, 2);
    d.begin(0, 1, {0});
    act(d);
    REQUIRE(d.ledger.fault());
    CHECK(d.all<Fail>().size() == 1);
    return *d.ledger.fault();
  };
  CHECK(fault_of([](auto& d) { d.submit(0, 1, 1); }).kind == Kind::not_required);
  CHECK(fault_of([](auto& d) { d.submit(0, 1, 7); }).kind == Kind::unknown_parameter);
  CHECK(fault_of([](auto& d) { d.begin(1, 1, {5}); }).kind == Kind::unknown_parameter);
  CHECK(fault_of([](auto& d) { d.begin(0, 1, {0}); }).kind == Kind::registered_twice);
  CHECK(fault_of([](auto& d) { d.submit(1, 1, 0); }).kind == Kind::not_registered);
  CHECK(fault_of([](auto& d) { d.sync(1, 1); }).kind == Kind::not_registered);
  CHECK(fault_of([](auto& d) { d.begin(1, 1, {0}, -1.0); }).kind == Kind::bad_weight);
  CHECK(fault_of([](auto& d) { d.begin(1, 1, {0}, std::numeric_limits<double>::quiet_NaN()); }).kind ==
        Kind::bad_weight);
  const Fault owed = fault_of([](auto& d) { d.sync(0, 1); });
  CHECK(owed.kind == Kind::not_submitted);
  CHECK(owed.parameter == ParameterId{0});
  const Fault twice = fault_of([](auto& d) {
    d.submit(0, 1, 0);
    d.submit(0, 1, 0);
  });
  CHECK(twice.kind == Kind::submitted_twice);
  CHECK(twice.member == 0);
  const Fault stale = fault_of([](auto& d) { d.begin(1, 3, {0}); });
  CHECK(stale.kind == Kind::out_of_order);
  CHECK(stale.value == 3);
  CHECK(stale.other == 1);
}

TEST_CASE("sync_ledger: denominators of the reductions, with absent devices as zeros or left out") {
  const auto denominator = [](GradientReduction reduction, Absent absent) {
    LedgerDriver d(3, 1, reduction, absent);
    d.step(0, 1, {0}, 2.0);
    d.step(1, 1, {0}, 4.0);
    d.step(2, 1, {}, 10.0);
    REQUIRE(d.all<Launch>().size() == 1);
    return d.all<Launch>()[0].denominator;
  };
  CHECK(denominator(GradientReduction::sum, Absent::zero) == 1.0);
  CHECK(denominator(GradientReduction::mean, Absent::zero) == 3.0);
  CHECK(denominator(GradientReduction::mean, Absent::subset) == 2.0);
  CHECK(denominator(GradientReduction::weighted_mean, Absent::zero) == 16.0);
  CHECK(denominator(GradientReduction::weighted_mean, Absent::subset) == 6.0);
}

TEST_CASE("sync_ledger: who contributes and who receives") {
  LedgerDriver d(3, 1);
  d.begin(0, 1, {0}, 2.0);
  d.begin(1, 1, {0}, 0.0);
  d.begin(2, 1, {}, 1.0);
  d.submit(0, 1, 0);
  d.submit(1, 1, 0);
  REQUIRE(d.all<Launch>().size() == 1);
  const auto parts = d.all<Launch>()[0].parts;
  CHECK(parts[0].contributes);
  CHECK_FALSE(parts[1].contributes);
  CHECK_FALSE(parts[2].contributes);
  CHECK(parts[2].receives);
  LedgerDriver subset(2, 1, GradientReduction::mean, Absent::subset);
  subset.step(0, 1, {0});
  subset.begin(1, 1, {});
  REQUIRE(subset.all<Launch>().size() == 1);
  CHECK_FALSE(subset.all<Launch>()[0].parts[1].receives);
}

TEST_CASE("sync_ledger: what was submitted counts when its device and the last one leave") {
  LedgerDriver d(2, 1);
  d.step(0, 1, {0});
  d.leave(0, 2);
  d.leave(1, 1);
  REQUIRE(d.all<Launch>().size() == 1);
  CHECK(d.all<Launch>()[0].parts[0].contributes);
  CHECK_FALSE(d.all<Launch>()[0].parts[0].absent);
  CHECK(d.all<Launch>()[0].parts[1].absent);
  CHECK(d.released(1));
}

TEST_CASE("sync_ledger: no weight anywhere releases without launching anything") {
  LedgerDriver d(2, 1);
  d.step(0, 1, {0}, 0.0);
  d.step(1, 1, {0}, 0.0);
  CHECK(d.launched(1).empty());
  REQUIRE(d.released(1));
  CHECK(d.all<Release>()[0].total_weight == 0.0);
}

TEST_CASE("sync_ledger: the first fault counts, and what was complete stands") {
  LedgerDriver d(2, 1);
  d.step(0, 1, {0});
  d.step(1, 1, {0});
  CHECK(d.released(1));
  d.ledger.fail({.kind = Kind::device_failed, .member = 1, .generation = 2}, d.actions);
  d.ledger.fail({.kind = Kind::device_failed, .member = 0, .generation = 2}, d.actions);
  CHECK(d.all<Fail>().size() == 1);
  CHECK(d.ledger.fault()->member == 1);
  d.step(0, 2, {0});
  d.step(1, 2, {0});
  CHECK_FALSE(d.released(2));
}

TEST_CASE("sync_ledger: a device may leave at any moment between its steps") {
  LedgerDriver d(3, 1);
  d.step(0, 1, {0});
  d.step(1, 1, {0});
  d.leave(2, 1);  // last to be heard of: completes the round
  CHECK(d.released(1));
  d.leave(1, 2);  // first to be heard of
  CHECK_FALSE(d.released(2));
  d.step(0, 2, {0});
  CHECK(d.released(2));
  d.step(0, 3, {0});
  CHECK(d.released(3));
  d.leave(0, 4);
  CHECK(d.ledger.all_left());
  CHECK_FALSE(d.ledger.fault());
  CHECK(d.all<Release>().size() == 3);
  d.begin(1, 4, {0});
  CHECK(d.ledger.fault()->kind == Kind::has_left);
}

TEST_CASE("sync_ledger: a failed group re-forms when all have joined or left, the newest ahead") {
  LedgerDriver d(4, 2);
  d.begin(0, 1, {0, 1});
  d.ledger.fail({.kind = Kind::device_failed, .member = 1, .generation = 1}, d.actions);
  CHECK_FALSE(d.ledger.join(0, 1, 7, d.actions));  // the number of the group that failed
  CHECK(d.ledger.join(0, 2, 7, d.actions));
  CHECK(d.ledger.join(1, 2, 6, d.actions));
  CHECK(d.ledger.missing().joins == std::vector<MemberIndex>{2, 3});
  CHECK(d.ledger.join(2, 2, 7, d.actions));
  CHECK(d.all<Reform>().empty());
  d.leave(3, 1);
  REQUIRE(d.all<Reform>().size() == 1);
  CHECK(d.all<Reform>()[0].group == 2);
  CHECK(d.all<Reform>()[0].ahead == 0);
  CHECK(d.all<Reform>()[0].behind == std::vector<MemberIndex>{1});
  CHECK_FALSE(d.ledger.join(0, 3, 7, d.actions));  // the group lives

  d.step(0, 1, {0});  // a message of group 1, late: never counted
  CHECK(d.launched(1).empty());
  d.group = 2;
  for (const MemberIndex member : {0U, 1U, 2U}) d.step(member, 1, {0, 1});
  CHECK(d.launched(1) == Ids{0, 1});
  CHECK(d.released(1));
}

TEST_CASE("sync_ledger: a closed group neither goes on nor re-forms") {
  LedgerDriver d(2, 1);
  d.begin(0, 1, {0});
  d.ledger.close(d.actions);
  CHECK(d.ledger.fault()->kind == Kind::closed);
  CHECK_FALSE(d.ledger.join(0, 2, 0, d.actions));
  d.ledger.close(d.actions);
  CHECK(d.all<Fail>().size() == 1);
}

TEST_CASE("sync_ledger: missing names what is waited for") {
  LedgerDriver d(3, 2);
  d.begin(0, 1, {0, 1});
  d.submit(0, 1, 0);
  d.step(1, 1, {0});
  const Missing missing = d.ledger.missing();
  CHECK(missing.registrations == std::vector<MemberIndex>{2});
  CHECK(missing.syncs == std::vector<MemberIndex>{0});
  REQUIRE(missing.gradients.size() == 1);
  CHECK(missing.gradients[0] == std::pair{MemberIndex{0}, ParameterId{1}});
}

TEST_CASE("sync_ledger: required sets may change from step to step") {
  LedgerDriver d(2, 4);
  const std::vector<std::pair<Ids, Ids>> steps = {
      {{0, 1, 2, 3}, {0, 1, 2, 3}}, {{}, {3}}, {{0, 2}, {1, 2}}, {{}, {}}, {{0, 3}, {0, 3}}};
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto generation = static_cast<std::int64_t>(i) + 1;
    d.step(0, generation, steps[i].first);
    d.step(1, generation, steps[i].second);
    std::set<std::uint32_t> all(steps[i].first.begin(), steps[i].first.end());
    all.insert(steps[i].second.begin(), steps[i].second.end());
    const Ids launched = d.launched(generation);
    CHECK(std::set<std::uint32_t>(launched.begin(), launched.end()) == all);
    CHECK(launched.size() == all.size());
    CHECK(d.released(generation));
  }
}

TEST_SUITE_END();
