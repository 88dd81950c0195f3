// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/ledger/agreement.h>

#include <tutti/tests/distributed/ledger/ledger_driver.h>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

Agreement three_sets() {
  return {.sets = {required_set({0, 1}), required_set({1}), required_set({})},
          .registrations = {{0, 2.0, true}, {1, 0.5, true}, {0, 0.0}, {2, 0.0}, {2, 0.0, false, true}, {0, 3.0, true}}};
}

}  // namespace

TEST_CASE("agreement: weights, devices and contributors are those of the sets that hold the parameter") {
  const Agreement agreement = three_sets();
  CHECK(agreement.total_weight() == 5.5);
  CHECK(agreement.weight({0}) == 5.0);
  CHECK(agreement.weight({1}) == 5.5);
  CHECK(agreement.weight({7}) == 0.0);
  CHECK(agreement.devices({1}) == 4);
  CHECK(agreement.contributors({0}) == std::vector<std::uint32_t>{0, 5});
  CHECK(agreement.contributors({1}) == std::vector<std::uint32_t>{0, 1, 5});
}

TEST_CASE("agreement: all have left only if each device says so") {
  Agreement agreement = three_sets();
  CHECK_FALSE(agreement.all_left());
  for (Agreement::Registration& registration : agreement.registrations) registration.left = true;
  CHECK(agreement.all_left());
}

TEST_CASE("agreement: neighbours share a bucket only if every set holds both or neither") {
  const Agreement agreement = three_sets();
  CHECK_FALSE(agreement.required_by_same({0}, {1}));
  CHECK(agreement.required_by_same({7}, {8}));
  CHECK(agreement.required_by_same({1}, {1}));
}

TEST_CASE("agreement: each device's set is compared, not its weight") {
  Agreement other = three_sets();
  other.registrations[0].weight = 7.0;
  other.sets[0] = std::make_shared<const RequiredSet>(std::vector<ParameterId>{{1}, {0}, {1}});
  std::swap(other.sets[1], other.sets[2]);
  CHECK_FALSE(three_sets().has_same_sets(other));
  for (Agreement::Registration& registration : other.registrations)
    if (registration.set > 0) registration.set = 3 - registration.set;
  CHECK(three_sets().has_same_sets(other));
  other.registrations.pop_back();
  CHECK_FALSE(three_sets().has_same_sets(other));
}

TEST_SUITE_END();
