// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/server/answers/pending_answers.h>

#include <tutti/backend/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tutti {

void PendingAnswers::ask(MemberIndex member, std::shared_ptr<SyncWaiter> waiter, const GroupMembers& members) {
  if (const auto earlier = std::exchange(waiters_[member], std::move(waiter)))
    earlier->release(nullptr, std::make_exception_ptr(SyncError(fmt::format(
                                  "[sync] {} asked again before it had its answer", members.name(member)))));
}

bool PendingAnswers::any() const {
  return std::ranges::any_of(waiters_, [](const auto& waiter) { return waiter != nullptr; });
}

void PendingAnswers::answer(MemberIndex member, std::shared_ptr<const RoundResult> result,
                            const std::exception_ptr& error) {
  if (const auto waiter = std::exchange(waiters_[member], nullptr)) waiter->release(std::move(result), error);
}

void PendingAnswers::answer_all(const std::shared_ptr<const RoundResult>& result, const std::exception_ptr& error) {
  for (MemberIndex member = 0; member < waiters_.size(); ++member) answer(member, result, error);
}

}  // namespace tutti
