// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/server/answers/followers.h>

#include <tutti/backend/error.h>

#include <doctest/doctest.h>

#include <vector>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;

namespace {

const GroupMembers kMembers({cpu(0), cpu(1)});

std::shared_ptr<SyncWaiter> ask(Followers& followers, MemberIndex member) {
  auto waiter = std::make_shared<SyncWaiter>();
  followers.ask(member, waiter, kMembers);
  return waiter;
}

std::shared_ptr<const RoundResult> result_of(std::int64_t generation) {
  auto result = std::make_shared<RoundResult>();
  result->generation = generation;
  return result;
}

}  // namespace

TEST_CASE("followers: results are fetched in order, one for each question") {
  Followers followers(2);
  followers.set(1, true);
  followers.add(1, result_of(1));
  followers.add(1, result_of(2));
  for (const std::int64_t generation : {1, 2}) {
    const auto waiter = ask(followers, 1);
    CHECK_FALSE(followers.waits_after_serving(1));
    REQUIRE(waiter->done());
    CHECK(waiter->result()->generation == generation);
  }
  const auto waiter = ask(followers, 1);
  CHECK(followers.waits_after_serving(1));
  CHECK_FALSE(waiter->done());
  followers.answer(1, nullptr);
  CHECK(waiter->done());
}

TEST_CASE("followers: a device that does not follow any more loses what it has not fetched") {
  Followers followers(2);
  followers.set(0, true);
  followers.add(0, result_of(1));
  followers.set(0, false);
  CHECK_FALSE(followers.follows(0));
  ask(followers, 0);
  CHECK(followers.waits_after_serving(0));
}

TEST_CASE("pending_answers: a device that asks twice has its first question answered with an error that names it") {
  PendingAnswers pending(2);
  const auto first = std::make_shared<SyncWaiter>(), second = std::make_shared<SyncWaiter>();
  pending.ask(1, first, kMembers);
  pending.ask(1, second, kMembers);
  REQUIRE(first->done());
  CHECK_THROWS_WITH_AS(std::rethrow_exception(first->error()), "[sync] cpu:1 asked again before it had its answer",
                       SyncError);
  CHECK_FALSE(second->done());
  pending.answer_all(nullptr);
  CHECK(second->done());
  CHECK_FALSE(pending.any());
}

TEST_SUITE_END();
