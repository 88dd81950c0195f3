// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/server/outside_checks.h>

#include <algorithm>
#include <utility>

namespace tutti {

std::optional<OutsideChecks::Bytes> OutsideChecks::begin(std::int64_t subject, ReplicaDigest digest, Waiters waiters,
                                                         std::string known) {
  open_.push_back({{subject, std::move(digest)}, std::move(waiters), std::move(known)});
  return open_.size() == 1 ? std::optional(open_.front().search.words()) : std::nullopt;
}

OutsideChecks::Outcome OutsideChecks::hear(std::span<const Bytes> by_rank) {
  if (open_.empty()) return {};
  auto answer = open_.front().search.hear(by_rank);
  if (auto* const next = std::get_if<DifferenceSearch::Say>(&answer)) return {.say = std::move(next->words)};
  const std::string& known = open_.front().known;
  if (const auto* const found = std::get_if<DifferenceSearch::Found>(&answer))
    return {.difference = known.empty() ? found->text : known + ": " + found->text, .of_models = !known.empty()};
  if (!known.empty()) return {.difference = known, .of_models = true};  // it is on a process that is silent here
  const Waiters waiters = std::move(open_.front().waiters);
  open_.pop_front();
  for (const auto& waiter : waiters) waiter->release(nullptr);
  Outcome outcome{.equal = true, .answered = !waiters.empty()};
  if (!open_.empty()) outcome.say = open_.front().search.words();
  return outcome;
}

void OutsideChecks::fail(const std::exception_ptr& error) {
  for (const Check& check : std::exchange(open_, {}))
    for (const auto& waiter : check.waiters) waiter->release(nullptr, error);
}

bool OutsideChecks::is_awaited() const {
  return std::ranges::any_of(open_, [](const Check& check) { return !check.waiters.empty(); });
}

}  // namespace tutti
