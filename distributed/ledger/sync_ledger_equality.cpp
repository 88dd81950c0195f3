// SPDX-License-Identifier: Apache-2.0
// When two ledgers have the same future: so that a search visits each state once.
#include <tutti/distributed/ledger/sync_ledger.h>

#include <bit>

namespace tutti {

// All that a later decision can depend on. Stamps of other generations are void, whatever their number.
std::vector<std::uint64_t> SyncLedger::canonical() const {
  std::vector<std::uint64_t> words{group_,       static_cast<std::uint64_t>(completed_),
                                   closed_,      fault_.has_value(),
                                   stale_,       registered_,
                                   synced_,      launched_,
                                   early_.size()};
  words.reserve(words.size() + members_.size() * (3 + parameters()) + parameters() + 5 * buckets_.size() +
                early_.size());
  for (MemberIndex index = 0; index < members_.size(); ++index) {
    const Member& member = members_[index];
    words.push_back((member.registered ? 1U : 0U) | (member.synced ? 2U : 0U) | (member.left ? 4U : 0U) |
                    (member.joined ? 8U : 0U) | (member.leaving ? 16U : 0U) |
                    (member.registered && member.passes_on ? 32U : 0U) |
                    ((member.left || member.joined || member.leaving) && has_applied_last(member) ? 64U : 0U) |
                    (std::uint64_t{member.owed} << 7U));
    words.push_back(std::bit_cast<std::uint64_t>(member.registered ? member.weight : 0.0));
    words.push_back(member.joined ? static_cast<std::uint64_t>(*member.joined) : 0);
    for (std::uint32_t id = 0; id < parameters(); ++id)  // also before it registers: the same set again costs nothing
      words.push_back((required_[cell(index, {id})] ? 1U : 0U) |
                      (submitted_[cell(index, {id})] == stamp_now() ? 2U : 0U));
  }
  for (std::uint32_t id = 0; id < parameters(); ++id) words.push_back(configuration_.layout->position_of({id}));
  if (!stale_)
    for (const Bucket& bucket : buckets_)
      words.insert(words.end(),
                   {bucket.first, bucket.count, bucket.required, bucket.stamp == stamp_now() ? bucket.submitted : 0,
                    bucket.launched_stamp == stamp_now() ? 1U : 0U});
  words.insert(words.end(), early_.begin(), early_.end());
  if (!has_outside()) return words;
  words.push_back((outside_.asked ? 1U : 0U) | (outside_.agreed ? 2U : 0U) | (outside_.committing ? 4U : 0U));
  if (!outside_.agreement) return words;
  for (const Agreement::Registration& registration : outside_.agreement->registrations) {
    words.push_back((outside_.agreed && registration.contributes ? 1U : 0U) |
                    (outside_.agreed && registration.left ? 2U : 0U));
    words.push_back(std::bit_cast<std::uint64_t>(outside_.agreed ? registration.weight : 0.0));
    const auto required = outside_.agreement->sets[registration.set]->parameters();
    words.push_back(required.size());
    for (const ParameterId id : required) words.push_back(id.value);
  }
  return words;
}

std::size_t SyncLedger::hash() const {
  std::size_t hash = 0xCBF29CE484222325U;
  for (const std::uint64_t word : canonical()) hash = (hash ^ word) * 0x100000001B3U;
  return hash;
}

}  // namespace tutti
