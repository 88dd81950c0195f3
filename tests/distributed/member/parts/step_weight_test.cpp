// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/member/parts/step_weight.h>

#include <tutti/backend/error.h>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;

TEST_CASE("step_weight: weights of closed scopes and of the backward add up, and a step begins with none") {
  StepWeight weight("cpu:0");
  weight.begin_step();
  weight.open_scope();
  weight.close_scope(3.0, nullptr, true);
  weight.add(4.0);
  weight.require_sound(1);
  CHECK(weight.total() == 7.0);
  weight.begin_step();
  CHECK(weight.total() == 0.0);
}

TEST_CASE("step_weight: an open scope is refused by name") {
  StepWeight weight("cpu:1");
  weight.begin_step();
  weight.open_scope();
  CHECK_THROWS_WITH_AS(weight.require_sound(5),
                       "[sync] a no_sync scope of cpu:1 is still alive: end it before step 5 is synchronised",
                       SyncError);
}

TEST_CASE("step_weight: a flaw holds for its step alone, and a scope of a past step says nothing") {
  StepWeight weight("cpu:0");
  weight.begin_step();
  weight.open_scope();
  weight.close_scope(2.0, "a flaw", true);
  CHECK_THROWS_WITH_AS(weight.require_sound(2), "[sync] a flaw on cpu:0: its step 2 cannot be synchronised", SyncError);
  CHECK(weight.total() == 0.0);
  weight.open_scope();
  weight.begin_step();
  weight.close_scope(2.0, "a flaw", false);
  weight.require_sound(3);
  CHECK(weight.total() == 0.0);
}
