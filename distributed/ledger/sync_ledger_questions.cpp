// SPDX-License-Identifier: Apache-2.0
// What a ledger can be asked, and what it tells other processes. Nothing here decides.
#include <tutti/distributed/ledger/sync_ledger.h>

#include <algorithm>

namespace tutti {

Agree SyncLedger::registrations() const {
  Agree agree{.generation = current_generation(), .registrations = {}};
  for (const Member& member : members_)
    agree.registrations.push_back(
        {member.required, member.weight, member.weight > 0.0 || member.passes_on, member.left, false});
  return agree;
}

// The largest is to blame, wherever it is.
Fault SyncLedger::bad_weight() const {
  Fault fault{.kind = Fault::Kind::bad_weight, .generation = current_generation()};
  const auto largest = std::ranges::max_element(members_, {}, &Member::weight);
  fault.member = static_cast<MemberIndex>(largest - members_.begin());
  if (!has_outside()) return fault;
  const auto& all = outside_.agreement->registrations;
  const auto outside = std::ranges::max_element(all, {}, &Agreement::Registration::weight);
  if (outside->weight <= largest->weight) return fault;
  fault.kind = Fault::Kind::bad_weight_outside;
  fault.value = outside - all.begin();
  return fault;
}

bool SyncLedger::members_left() const noexcept {
  return std::ranges::all_of(members_, [](const Member& member) { return member.left; });
}

bool SyncLedger::all_left() const noexcept {
  return members_left() && (!has_outside() || (outside_.agreed && outside_.agreement->all_left()));
}

bool SyncLedger::is_launched(ParameterId id) const {
  if (stale_) return false;
  for (MemberIndex m = 0; m < members_.size(); ++m)
    if (required_[cell(m, id)]) return buckets_[bucket_of_[id.value]].launched_stamp == stamp_now();
  return false;
}

Missing SyncLedger::missing() const {
  Missing missing;
  const bool joining =
      fault_ && std::ranges::any_of(members_, [](const Member& member) { return member.joined.has_value(); });
  for (MemberIndex index = 0; index < members_.size(); ++index) {
    const Member& member = members_[index];
    if (joining && !member.left && !member.joined) missing.joins.push_back(index);
    if (fault_) continue;
    if (!member.registered) missing.registrations.push_back(index);
    if (member.registered && !member.synced) {
      missing.syncs.push_back(index);
      for (const ParameterId id : member.required->parameters())
        if (submitted_[cell(index, id)] != stamp_now()) missing.gradients.emplace_back(index, id);
    }
  }
  missing.agreement = !fault_ && outside_.asked && !outside_.agreed;
  missing.commit = !fault_ && outside_.committing;
  return missing;
}

}  // namespace tutti
