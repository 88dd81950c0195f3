// SPDX-License-Identifier: Apache-2.0
// What must not survive: weights and submissions of members that left or of groups that failed.
#include <tutti/distributed/ledger/sync_ledger.h>

#include <tutti/tests/distributed/ledger/ledger_driver.h>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;
using Kind = Fault::Kind;

namespace {

void reform_with(LedgerDriver& d, std::uint64_t g, std::initializer_list<MemberIndex> who) {
  for (auto m : who) REQUIRE(d.ledger.join(m, g, 0, d.actions));
  d.group = g;
  d.actions.clear();
}

}  // namespace

TEST_CASE("sync_ledger: weight of a device that left is not in the denominator") {
  LedgerDriver d(2, 1);
  d.step(0, 1, {0}, 2);
  d.step(1, 1, {0}, 6);
  d.leave(1, 2);
  d.actions.clear();
  d.step(0, 2, {0}, 2);
  REQUIRE(d.all<Launch>().size() == 1);
  CHECK(d.all<Launch>()[0].denominator == 2.0);
}

TEST_CASE(
    "sync_ledger: nothing of the failed group is counted in the next: failure in generation 2 after submissions and a "
    "completed step") {
  LedgerDriver d(2, 2);
  d.step(0, 1, {0});
  d.step(1, 1, {0});
  d.begin(0, 2, {0, 1});
  d.submit(0, 2, 0);
  d.submit(0, 2, 1);
  d.ledger.fail({.kind = Kind::device_failed}, d.actions);
  reform_with(d, 2, {0, 1});
  CHECK(d.ledger.current_generation() == 1);
  for (int g : {1, 2}) {
    d.begin(0, g, {0});
    d.begin(1, g, {0});
    d.submit(0, g, 0);
    CHECK(d.launched(g).empty());
    d.submit(1, g, 0);
    CHECK(d.launched(g) == Ids{0});
    d.sync(0, g);
    d.sync(1, g);
    CHECK(d.released(g));
  }
}

TEST_CASE("sync_ledger: an early submission of a member that left with the failed group launches nothing") {
  LedgerDriver d(2, 1);
  d.begin(0, 1, {0});
  d.submit(0, 1, 0);
  d.ledger.fail({.kind = Kind::device_failed}, d.actions);
  d.leave(0, 1);
  reform_with(d, 2, {1});
  d.step(1, 1, {});
  CHECK(d.launched(1).empty());
  CHECK(d.released(1));
}

TEST_CASE("sync_ledger: infinite weight; second sync; join after leaving; missing without those who left") {
  LedgerDriver a(2, 1);
  a.begin(0, 1, {}, std::numeric_limits<double>::infinity());
  REQUIRE(a.ledger.fault());
  CHECK(a.ledger.fault()->kind == Kind::bad_weight);
  LedgerDriver b(2, 1);
  b.step(0, 1, {});
  b.sync(0, 1);
  REQUIRE(b.ledger.fault());
  CHECK(b.ledger.fault()->kind == Kind::synced_twice);
  LedgerDriver c(3, 1);
  c.leave(0, 1);
  c.ledger.fail({.kind = Kind::device_failed}, c.actions);
  CHECK_FALSE(c.ledger.join(0, 2, 0, c.actions));
  CHECK(c.ledger.join(1, 2, 0, c.actions));
  CHECK(c.ledger.missing().joins == std::vector<MemberIndex>{2});
}

TEST_CASE("sync_ledger: leaving after one's own sync counts from the next generation on") {
  LedgerDriver d(2, 1);
  d.step(0, 1, {0});
  d.leave(0, 1);
  CHECK_FALSE(d.ledger.fault());
  d.step(1, 1, {0});
  CHECK(d.launched(1) == Ids{0});
  CHECK(d.released(1));
  d.step(1, 2, {0});
  CHECK(d.released(2));
}

TEST_CASE("sync_ledger: weights whose sum is infinite are refused") {
  LedgerDriver d(2, 1);
  d.begin(0, 1, {0}, 1.5e308);
  d.begin(1, 1, {0}, 1.6e308);
  REQUIRE(d.ledger.fault());
  CHECK(d.ledger.fault()->kind == Kind::bad_weight);
  CHECK(d.ledger.fault()->member == 1);
}

TEST_CASE("sync_ledger: parameters may become known after members have left, failed and joined again") {
  LedgerDriver d(3, 0);
  d.leave(0, 1);
  d.ledger.fail({.kind = Kind::device_failed}, d.actions);
  d.ledger.set_layout(scalar_layout(2));
  for (const MemberIndex member : {1U, 2U}) CHECK(d.ledger.join(member, 2, 0, d.actions));
  d.group = 2;
  d.step(1, 1, {0, 1});
  d.step(2, 1, {1});
  CHECK_FALSE(d.ledger.fault());
  CHECK(d.launched(1) == Ids{0, 1});
  CHECK(d.released(1));
}

TEST_SUITE_END();
