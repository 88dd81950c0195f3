// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/server/collective_queue.h>

#include <tutti/backend/error.h>

#include <doctest/doctest.h>

#include <vector>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using std::chrono::seconds;

namespace {

const GroupMembers kMembers({cpu(0), cpu(1)});
const CollectiveQueue::Clock::time_point kStart{seconds(1000)};

PostCollective barrier(MemberIndex member, std::int64_t number) {
  PostCollective message;
  message.member = member;
  message.number = number;
  message.waiter = std::make_shared<CollectiveWaiter>();
  message.at = kStart;
  return message;
}

}  // namespace

TEST_CASE("collective_queue: is matched when every device has posted, and then answers all") {
  CollectiveQueue queue(kMembers);
  const PostCollective first = barrier(0, 1), second = barrier(1, 1);
  CHECK_FALSE(queue.add(first));
  CHECK_FALSE(queue.is_matched());
  CHECK_FALSE(queue.add(second));
  CHECK(queue.is_matched());
  queue.answer({std::make_shared<CollectiveResult>(), std::make_shared<CollectiveResult>()});
  CHECK(queue.is_empty());
  CHECK(first.waiter->done());
  CHECK(second.waiter->done());
}

TEST_CASE("collective_queue: a number out of turn and a call that differs are found on arrival") {
  CollectiveQueue queue(kMembers);
  CHECK(queue.add(barrier(0, 2)) == "[sync] cpu:0 posted collective 2 while 1 was due");
  CollectiveQueue other(kMembers);
  CHECK_FALSE(other.add(barrier(0, 1)));
  CHECK_FALSE(other.add(barrier(0, 2)));  // ahead of the other device
  PostCollective sum = barrier(1, 1);
  sum.call.kind = CollectiveKind::all_reduce;
  const auto fault = other.add(sum);
  REQUIRE(fault);
  CHECK(fault->starts_with("[sync] collective 1 is barrier"));
}

TEST_CASE("collective_queue: members of several processes, and roots among them, are told apart by rank") {
  const GroupMembers members({{0, cpu(0)}, {1, cpu(0)}});
  CollectiveQueue queue(members);
  PostCollective message = barrier(0, 1);
  message.call = {.kind = CollectiveKind::broadcast, .root = {1, cpu(0)}, .shape = {2}};
  CHECK_FALSE(queue.add(message));
  message = barrier(1, 1);
  message.call = {.kind = CollectiveKind::broadcast, .root = cpu(0), .shape = {2}};
  CHECK(queue.add(message) ==
        "[sync] collective 1 is broadcast from rank 1 cpu:0 [2] f32 on rank 0 cpu:0 and broadcast from rank 0 cpu:0 "
        "[2] f32 on rank 1 cpu:0");
  CollectiveCall reduce{.kind = CollectiveKind::reduce, .root = {1, cpu(0)}, .shape = {2}};
  const std::vector<CollectiveCall> calls(2, reduce);
  const CollectivePlan plan = plan_collective(calls, queue.members().all());
  REQUIRE(plan.parts.size() == 2);
  CHECK(plan.parts[0].targets.front().member == 0);  // zeros
  CHECK(plan.parts[1].targets.front().member == 1);
}

TEST_CASE("collective_queue: a failure answers everything, and the next group counts anew") {
  CollectiveQueue queue(kMembers);
  const PostCollective lost = barrier(0, 1);
  queue.add(lost);
  queue.fail(std::make_exception_ptr(SyncError("gone")));
  REQUIRE(lost.waiter->done());
  CHECK_THROWS_AS(std::rethrow_exception(lost.waiter->error()), SyncError);
  CHECK_FALSE(queue.add(barrier(0, 1)));
}

TEST_CASE("collective_queue: waits count from the first post, or from when the process ran again") {
  CollectiveQueue queue(kMembers);
  CHECK(queue.waited(kStart + seconds(5), {}) == seconds(0));
  queue.add(barrier(1, 1));
  CHECK(queue.waited(kStart + seconds(5), {}) == seconds(5));
  CHECK(queue.waited(kStart + seconds(5), kStart + seconds(3)) == seconds(2));
  const std::vector<SyncParameter> parameters;
  const std::vector<std::string> busy(2);
  CHECK(queue.missing_text(seconds(5), {kMembers, parameters, busy}, [](MemberIndex) { return true; }) ==
        "[sync] waited 5 s, missing collective 1 (barrier) from cpu:0 (has left); posted by cpu:1");
  CHECK(queue.warn_once());
  CHECK_FALSE(queue.warn_once());
  queue.begin_deadlines_anew();
  CHECK(queue.warn_once());
}

TEST_SUITE_END();
