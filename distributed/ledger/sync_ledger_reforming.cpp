// SPDX-License-Identifier: Apache-2.0
// How a failed group becomes the next one.
#include <tutti/distributed/ledger/sync_ledger.h>

#include <algorithm>
#include <ranges>
#include <utility>

namespace tutti {

bool SyncLedger::join(MemberIndex index, std::uint64_t group, std::int64_t last_step_applied,
                      std::vector<LedgerAction>& actions, std::int64_t applied) {
  if (!fault_ || closed_ || group != group_ + 1 || members_[index].left || has_outside()) return false;
  members_[index].joined = last_step_applied;
  members_[index].applied = applied;
  try_reform(actions);
  return true;
}

void SyncLedger::abandon_joins() {
  for (Member& member : members_) member.joined.reset();
}

void SyncLedger::try_reform(std::vector<LedgerAction>& actions) {
  if (closed_ || has_outside() || all_left()) return;
  Reform reform;
  std::optional<std::int64_t> newest;
  for (MemberIndex index = 0; index < members_.size(); ++index) {
    const Member& member = members_[index];
    if (member.left) continue;
    if (!member.joined) return;
    if (!newest || *member.joined > *newest) {
      newest = member.joined;
      reform.ahead = index;
    }
  }
  if (const auto ahead = left_ahead()) {
    abandon_joins();
    return actions.push_back(Strand{*ahead, completed_});
  }
  for (MemberIndex index = 0; index < members_.size(); ++index)
    if (members_[index].joined && *members_[index].joined < *newest) reform.behind.push_back(index);
  reform.group = ++group_;
  completed_ = 0;
  fault_.reset();
  for (MemberIndex index = 0; index < members_.size(); ++index) {
    require(members_[index], index, nullptr);
    members_[index].joined.reset();
    members_[index].applied = 0;
  }
  std::ranges::fill(submitted_, Clock32{0});  // generations are counted from 1 again
  stale_ = true;                              // the buckets' stamps belong to the old numbers
  reset_members();
  actions.push_back(std::move(reform));
}

// What is committed stands: who applied it and is gone cannot go back, and the others would take the step without it.
std::optional<MemberIndex> SyncLedger::left_ahead() const {
  std::optional<MemberIndex> ahead;
  for (MemberIndex index = 0; index < members_.size(); ++index) {
    if (!has_applied_last(members_[index])) continue;
    if (!members_[index].left) return std::nullopt;
    if (!ahead) ahead = index;
  }
  return ahead;
}

}  // namespace tutti
