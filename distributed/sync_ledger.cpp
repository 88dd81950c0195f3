// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/sync_ledger.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace tutti {

RequiredSet::RequiredSet(std::vector<ParameterId> parameters) : parameters_(std::move(parameters)) {
  std::ranges::sort(parameters_);
  const auto repeated = std::ranges::unique(parameters_);
  parameters_.erase(repeated.begin(), repeated.end());
}

SyncLedger::SyncLedger(Configuration configuration)
    : configuration_(configuration),
      members_(configuration.members),
      counts_(configuration.parameters),
      required_(static_cast<std::size_t>(configuration.members) * configuration.parameters, false),
      submitted_(static_cast<std::size_t>(configuration.members) * configuration.parameters, 0) {}

// --- messages

std::optional<Fault> SyncLedger::misfit(Stamp stamp) const {
  const Member& member = members_[stamp.member];
  const Fault fault{.member = stamp.member,
                    .generation = current_generation(),
                    .value = stamp.generation,
                    .other = current_generation()};
  const auto of_kind = [&](Fault::Kind kind) {
    Fault result = fault;
    result.kind = kind;
    return result;
  };
  if (member.left || member.leaving) return of_kind(Fault::Kind::has_left);
  if (stamp.generation != current_generation()) return of_kind(Fault::Kind::out_of_order);
  return std::nullopt;
}

void SyncLedger::register_parameters(Stamp stamp, double weight, std::shared_ptr<const RequiredSet> required,
                                     std::vector<LedgerAction>& actions) {
  if (fault_ || stamp.group != group_) return;
  if (const auto fault = misfit(stamp)) return fail(*fault, actions);
  Member& member = members_[stamp.member];
  Fault fault{.member = stamp.member, .generation = stamp.generation};
  if (member.registered) return fault.kind = Fault::Kind::registered_twice, fail(fault, actions);
  if (!std::isfinite(weight) || weight < 0.0) return fault.kind = Fault::Kind::bad_weight, fail(fault, actions);
  const auto ids = required->parameters();
  if (!ids.empty() && ids.back().value >= counts_.size()) {
    fault.kind = Fault::Kind::unknown_parameter;
    fault.parameter = ids.back();
    return fail(fault, actions);
  }
  require(member, stamp.member, std::move(required));
  member.registered = true;
  member.weight = weight;
  member.owed = static_cast<std::uint32_t>(ids.size());
  if (++registered_ == members_.size()) all_registered(actions);
}

void SyncLedger::submit(Stamp stamp, ParameterId parameter, std::vector<LedgerAction>& actions) {
  if (fault_ || stamp.group != group_) return;
  if (const auto fault = misfit(stamp)) return fail(*fault, actions);
  Member& member = members_[stamp.member];
  Fault fault{.member = stamp.member, .generation = stamp.generation, .parameter = parameter};
  if (!member.registered) return fault.kind = Fault::Kind::not_registered, fail(fault, actions);
  if (parameter.value >= counts_.size()) return fault.kind = Fault::Kind::unknown_parameter, fail(fault, actions);
  if (!required_[cell(stamp.member, parameter)]) return fault.kind = Fault::Kind::not_required, fail(fault, actions);
  Clock32& submitted = submitted_[cell(stamp.member, parameter)];
  if (submitted == stamp_now()) return fault.kind = Fault::Kind::submitted_twice, fail(fault, actions);
  submitted = stamp_now();
  --member.owed;
  ParameterCount& count = counts_[parameter.value];
  if (count.stamp != stamp_now()) {
    count.stamp = stamp_now();
    count.submitted = 0;
  }
  ++count.submitted;
  if (registered_ < members_.size()) {
    if (count.submitted == 1) early_.push_back(parameter);
    return;
  }
  try_launch(parameter, actions);
  try_complete(actions);
}

void SyncLedger::collective_sync(Stamp stamp, std::vector<LedgerAction>& actions) {
  if (fault_ || stamp.group != group_) return;
  if (const auto fault = misfit(stamp)) return fail(*fault, actions);
  Member& member = members_[stamp.member];
  Fault fault{.member = stamp.member, .generation = stamp.generation};
  if (!member.registered) return fault.kind = Fault::Kind::not_registered, fail(fault, actions);
  if (member.synced) return fault.kind = Fault::Kind::synced_twice, fail(fault, actions);
  if (member.owed > 0) {
    fault.kind = Fault::Kind::not_submitted;
    for (const ParameterId id : member.required->parameters())
      if (!fault.parameter && submitted_[cell(stamp.member, id)] != stamp_now()) fault.parameter = id;
    return fail(fault, actions);
  }
  member.synced = true;
  ++synced_;
  try_complete(actions);
}

void SyncLedger::leave(Stamp stamp, std::vector<LedgerAction>& actions) {
  Member& member = members_[stamp.member];
  if (member.left || closed_ || stamp.group != group_) return;
  if (!fault_ && member.synced) {  // its part in this generation stands; it is absent from the next one on
    member.leaving = true;
    return;
  }
  if (!fault_ && member.registered) {
    Fault fault{.kind = Fault::Kind::has_left, .member = stamp.member, .generation = current_generation()};
    fail(fault, actions);
  }
  member.left = true;
  member.joined.reset();
  if (fault_) return try_reform(actions);
  register_empty(stamp.member);
  if (all_left()) return;  // nobody is left to open another generation, or to be released from this one
  if (registered_ == members_.size()) all_registered(actions);
}

void SyncLedger::fail(const Fault& fault, std::vector<LedgerAction>& actions) {
  if (fault_) return;
  fault_ = fault;
  for (Member& member : members_) member.left |= std::exchange(member.leaving, false);
  actions.push_back(Fail{fault});
}

void SyncLedger::close(std::vector<LedgerAction>& actions) {
  if (closed_) return;
  closed_ = true;
  fail({.kind = Fault::Kind::closed, .generation = current_generation()}, actions);
}

bool SyncLedger::join(MemberIndex index, std::uint64_t group, std::int64_t last_step_applied,
                      std::vector<LedgerAction>& actions) {
  if (!fault_ || closed_ || group != group_ + 1 || members_[index].left) return false;
  members_[index].joined = last_step_applied;
  try_reform(actions);
  return true;
}

void SyncLedger::abandon_joins() {
  for (Member& member : members_) member.joined.reset();
}

// --- rules

// Keeps the counts of how many members require each parameter; costs nothing while a member's set stays the same.
void SyncLedger::require(Member& member, MemberIndex index, std::shared_ptr<const RequiredSet> required) {
  if (member.required == required) return;
  if (member.required)
    for (const ParameterId id : member.required->parameters()) {
      required_[cell(index, id)] = false;
      if (--counts_[id.value].required == 0) --distinct_required_;
    }
  if (required)
    for (const ParameterId id : required->parameters()) {
      required_[cell(index, id)] = true;
      if (++counts_[id.value].required == 1) ++distinct_required_;
    }
  member.required = std::move(required);
}

// A device that left stands for an empty registration of weight 0 and a posted sync.
void SyncLedger::register_empty(MemberIndex index) {
  Member& member = members_[index];
  require(member, index, nullptr);
  member.registered = member.synced = true;
  member.weight = 0.0;
  member.owed = 0;
  ++registered_;
  ++synced_;
}

void SyncLedger::all_registered(std::vector<LedgerAction>& actions) {
  total_weight_ = 0.0;
  for (const Member& member : members_) total_weight_ += member.weight;
  // Each weight is finite, yet a sum that f32 does not hold would make gradients 0 or NaN.
  if (total_weight_ > 0.0 && !std::isnormal(static_cast<float>(total_weight_))) {
    const auto largest = std::ranges::max_element(members_, {}, &Member::weight) - members_.begin();
    return fail({.kind = Fault::Kind::bad_weight,
                 .member = static_cast<MemberIndex>(largest),
                 .generation = current_generation()},
                actions);
  }
  for (const ParameterId id : early_) try_launch(id, actions);
  early_.clear();
  try_complete(actions);
}

void SyncLedger::try_launch(ParameterId id, std::vector<LedgerAction>& actions) {
  ParameterCount& count = counts_[id.value];
  if (count.submitted < count.required || count.launched_stamp == stamp_now()) return;
  count.launched_stamp = stamp_now();
  ++launched_;
  if (total_weight_ > 0.0) actions.push_back(Launch{current_generation(), id, denominator(id)});
}

double SyncLedger::denominator(ParameterId id) const {
  switch (configuration_.reduction) {
    case GradientReduction::sum: return 1.0;
    case GradientReduction::mean:
      return configuration_.absent == Absent::zero ? static_cast<double>(members_.size())
                                                   : static_cast<double>(counts_[id.value].required);
    case GradientReduction::weighted_mean: break;
  }
  if (configuration_.absent == Absent::zero) return total_weight_;
  double weight = 0.0;
  for (MemberIndex m = 0; m < members_.size(); ++m)
    if (required_[cell(m, id)]) weight += members_[m].weight;
  return weight > 0.0 ? weight : 1.0;  // none of those that require it has examples: the sum is zeros
}

// Completion is one step for all devices: none may be ahead by an update that another's failure undoes.
void SyncLedger::try_complete(std::vector<LedgerAction>& actions) {
  if (registered_ < members_.size() || synced_ < members_.size() || launched_ < distinct_required_) return;
  actions.push_back(Release{current_generation(), total_weight_});
  ++completed_;
  reset_members();
}

void SyncLedger::reset_members() {
  registered_ = synced_ = launched_ = 0;
  early_.clear();
  for (MemberIndex index = 0; index < members_.size(); ++index) {
    Member& member = members_[index];
    member.registered = member.synced = false;
    member.owed = 0;
    member.left |= std::exchange(member.leaving, false);
    if (member.left) register_empty(index);
  }
}

void SyncLedger::try_reform(std::vector<LedgerAction>& actions) {
  if (closed_ || all_left()) return;
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
  for (MemberIndex index = 0; index < members_.size(); ++index)
    if (members_[index].joined && *members_[index].joined < *newest) reform.behind.push_back(index);
  reform.group = ++group_;
  completed_ = 0;
  fault_.reset();
  for (MemberIndex index = 0; index < members_.size(); ++index) {
    require(members_[index], index, nullptr);
    members_[index].joined.reset();
  }
  std::ranges::fill(submitted_, Clock32{0});  // generations are counted from 1 again
  for (ParameterCount& count : counts_) count = {};
  reset_members();
  actions.push_back(std::move(reform));
}

// --- questions

bool SyncLedger::all_left() const noexcept {
  return std::ranges::all_of(members_, [](const Member& member) { return member.left; });
}

bool SyncLedger::requires_parameter(MemberIndex member, ParameterId id) const { return required_[cell(member, id)]; }

bool SyncLedger::contributes(MemberIndex member, ParameterId id) const {
  return required_[cell(member, id)] && members_[member].weight > 0.0;
}

bool SyncLedger::receives(MemberIndex member, ParameterId id) const {
  return configuration_.absent == Absent::zero || required_[cell(member, id)];
}

bool SyncLedger::is_launched(ParameterId id) const { return counts_[id.value].launched_stamp == stamp_now(); }

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
  return missing;
}

// What the future depends on, and nothing else: two ledgers that differ in history alone are equal.
std::vector<std::uint64_t> SyncLedger::canonical() const {
  std::vector<std::uint64_t> words{group_, static_cast<std::uint64_t>(completed_), closed_, fault_.has_value()};
  for (MemberIndex index = 0; index < members_.size(); ++index) {
    const Member& member = members_[index];
    words.push_back((member.registered ? 1U : 0U) | (member.synced ? 2U : 0U) | (member.left ? 4U : 0U) |
                    (member.joined ? 8U : 0U) | (member.leaving ? 16U : 0U));
    words.push_back(std::bit_cast<std::uint64_t>(member.registered ? member.weight : 0.0));
    words.push_back(member.joined ? static_cast<std::uint64_t>(*member.joined) : 0);
    if (!member.registered) continue;
    for (std::uint32_t id = 0; id < counts_.size(); ++id)
      words.push_back((required_[cell(index, {id})] ? 1U : 0U) |
                      (submitted_[cell(index, {id})] == stamp_now() ? 2U : 0U));
  }
  for (std::uint32_t id = 0; id < counts_.size(); ++id) words.push_back(is_launched({id}) ? 1 : 0);
  return words;
}

std::size_t SyncLedger::hash() const {
  std::size_t hash = 0xCBF29CE484222325U;
  for (const std::uint64_t word : canonical()) hash = (hash ^ word) * 0x100000001B3U;
  return hash;
}

}  // namespace tutti
