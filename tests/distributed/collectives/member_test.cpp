// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/collectives/member.h>

#include <doctest/doctest.h>

#include <unordered_set>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;

TEST_CASE("member: a device is the only process's member, and its name shows no rank") {
  const Member alone = cpu(3);
  CHECK(alone == Member(0, cpu(3)));
  CHECK(to_string(alone) == "cpu:3");
}

TEST_CASE("member: devices of one name in two processes are two members") {
  const Member first(0, cpu(1)), second(1, cpu(1));
  CHECK(first < second);
  CHECK(std::unordered_set<Member>{first, second, Member(0, cpu(2)), first}.size() == 3);
  CHECK(to_string(first, 2) == "rank 0 cpu:1");
  CHECK(to_string(second, 2) == "rank 1 cpu:1");
  CHECK(to_string(second) == "rank 1 cpu:1");  // where there should be no other rank, it is shown
}

TEST_CASE("member: the ranks say how many processes there are") {
  const std::vector<Device> devices{cpu(0), cpu(1)};
  CHECK(members_of(devices, 2) == std::vector<Member>{{2, cpu(0)}, {2, cpu(1)}});
  CHECK(world_of(members_of(devices)) == 1);
  CHECK(world_of(members_of(devices, 2)) == 3);
}

TEST_SUITE_END();
