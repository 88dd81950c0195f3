// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/member/parts/standing.h>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;

TEST_CASE("standing: stamps carry member, group and generation") {
  Standing standing(2);
  standing.begin_generation();
  CHECK(standing.stamp().member == 2);
  CHECK(standing.stamp().group == 1);
  CHECK(standing.stamp().generation == 1);
  CHECK(standing.stamp(7).generation == 7);
  CHECK(standing.is_at(1, 1));
  CHECK_FALSE(standing.is_at(1, 2));
}

TEST_CASE("standing: a device enters later groups only") {
  Standing standing(0);
  standing.enter(3);
  standing.enter(2);
  CHECK(standing.group() == 3);
}

TEST_CASE("standing: who left follows the group it left, then the one whose state it took over") {
  Standing standing(0);
  standing.begin_generation();
  standing.leave();
  CHECK(standing.has_left());
  CHECK(standing.followed_group() == 1);
  standing.enter(2);  // the others have formed it
  CHECK(standing.followed_group() == 1);
  standing.follow_into(2);
  CHECK(standing.followed_group() == 2);
  CHECK(standing.generation() == 0);
}
