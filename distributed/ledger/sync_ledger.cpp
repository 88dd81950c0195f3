// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/ledger/sync_ledger.h>

#include <algorithm>
#include <cmath>
#include <ranges>
#include <utility>

namespace tutti {

SyncLedger::SyncLedger(Configuration configuration)
    : configuration_(configuration),
      members_(configuration.members),
      required_(configuration.members * configuration.layout->places().size(), false),
      submitted_(configuration.members * configuration.layout->places().size(), 0),
      bucket_of_(configuration.layout->places().size()) {}

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
                                     std::vector<LedgerAction>& actions, bool passes_on) {
  if (fault_ || stamp.group != group_) return;
  if (const auto fault = misfit(stamp)) return fail(*fault, actions);
  Member& member = members_[stamp.member];
  Fault fault{.member = stamp.member, .generation = stamp.generation};
  if (member.registered) return fault.kind = Fault::Kind::registered_twice, fail(fault, actions);
  if (!std::isfinite(weight) || weight < 0.0) return fault.kind = Fault::Kind::bad_weight, fail(fault, actions);
  const auto ids = required->parameters();
  if (!ids.empty() && ids.back().value >= parameters()) {
    fault.kind = Fault::Kind::unknown_parameter;
    fault.parameter = ids.back();
    return fail(fault, actions);
  }
  require(member, stamp.member, std::move(required));
  member.registered = true;
  member.passes_on = passes_on;
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
  if (parameter.value >= parameters()) return fault.kind = Fault::Kind::unknown_parameter, fail(fault, actions);
  if (!required_[cell(stamp.member, parameter)]) return fault.kind = Fault::Kind::not_required, fail(fault, actions);
  Clock32& submitted = submitted_[cell(stamp.member, parameter)];
  if (submitted == stamp_now()) return fault.kind = Fault::Kind::submitted_twice, fail(fault, actions);
  submitted = stamp_now();
  --member.owed;
  if (stale_) return;  // counted when the buckets are rebuilt
  Bucket& bucket = buckets_[bucket_of_[parameter.value]];
  if (bucket.stamp != stamp_now()) {
    bucket.stamp = stamp_now();
    bucket.submitted = 0;
  }
  if (++bucket.submitted < bucket.required) return;
  if (has_outside()) return launch_in_order(actions);
  if (registered_ < members_.size()) {
    early_.push_back(bucket_of_[parameter.value]);
    return;
  }
  try_launch(bucket_of_[parameter.value], actions);
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
  if (has_outside()) launch_in_order(actions);
  try_complete(actions);
}

void SyncLedger::leave(Stamp stamp, std::vector<LedgerAction>& actions, std::int64_t applied) {
  Member& member = members_[stamp.member];
  if (member.left || closed_ || stamp.group != group_) return;
  member.applied = applied;
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
  // Nobody is left to open another generation, or to be released from this one. Others go on with this process.
  if (members_left() && !has_outside()) return;
  if (registered_ == members_.size()) all_registered(actions);
}

void SyncLedger::agreed(std::uint64_t group, std::int64_t generation, std::shared_ptr<const Agreement> agreement,
                        std::vector<LedgerAction>& actions) {
  if (fault_ || group != group_ || generation != current_generation() || !outside_.asked || outside_.agreed) return;
  stale_ = stale_ || !outside_.agreement || !agreement->has_same_sets(*outside_.agreement);
  outside_.agreement = std::move(agreement);
  outside_.agreed = true;
  if (!all_left()) open_generation(outside_.agreement->total_weight(), actions);
}

void SyncLedger::committed(std::uint64_t group, std::int64_t generation, std::vector<LedgerAction>& actions) {
  if (fault_ || group != group_ || generation != current_generation() || !outside_.committing) return;
  complete(actions);
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

// --- rules

// Keeps the counts of how many members require each parameter; costs nothing while a member's set stays the same.
void SyncLedger::require(Member& member, MemberIndex index, std::shared_ptr<const RequiredSet> required) {
  if (member.required == required) return;
  if (member.required)
    for (const ParameterId id : member.required->parameters()) required_[cell(index, id)] = false;
  if (required)
    for (const ParameterId id : required->parameters()) required_[cell(index, id)] = true;
  member.required = std::move(required);
  stale_ = true;
}

void SyncLedger::set_layout(std::shared_ptr<const GradientLayout> layout) {
  configuration_.layout = std::move(layout);
  stale_ = true;
  const std::size_t known = configuration_.layout->places().size();
  if (known == parameters()) return;
  required_.assign(members_.size() * known, false);
  submitted_.assign(members_.size() * known, 0);
  bucket_of_.assign(known, 0);
}

// Ascending. Looks at all parameters only where the sets of many members are as large together.
std::vector<std::uint32_t> SyncLedger::required_positions() const {
  const GradientLayout& layout = *configuration_.layout;
  std::vector<std::uint32_t> positions;
  const auto add = [&](const RequiredSet& set) {
    for (const ParameterId id : set.parameters()) positions.push_back(layout.position_of(id));
  };
  if (has_outside())
    for (const auto& set : outside_.agreement->sets) add(*set);
  else
    for (const Member& member : members_)
      if (member.required && positions.size() < parameters()) add(*member.required);
  if (positions.size() < parameters() || has_outside()) {
    std::ranges::sort(positions);
    const auto repeated = std::ranges::unique(positions);
    positions.erase(repeated.begin(), repeated.end());
    return positions;
  }
  positions.clear();
  for (std::uint32_t position = 0; position < parameters(); ++position)
    for (MemberIndex m = 0; m < members_.size(); ++m)
      if (required_[cell(m, parameter_at(position))]) {
        positions.push_back(position);
        break;
      }
  return positions;
}

// Neighbours of one dtype, short enough together, and required by the same members: whose zeros would count, and who
// would receive the result, is then one question for the whole bucket.
bool SyncLedger::may_join(const Bucket& bucket, std::uint32_t position) const {
  const GradientLayout& layout = *configuration_.layout;
  const GradientLayout::Place& first = layout.places()[bucket.first];
  const GradientLayout::Place& place = layout.places()[position];
  const std::size_t longest = configuration_.bucket_bytes;
  if (position != bucket.first + bucket.count || !layout.fits_bucket(bucket.first, position, longest)) return false;
  for (MemberIndex m = 0; m < members_.size(); ++m)
    if (required_[cell(m, first.parameter)] != required_[cell(m, place.parameter)]) return false;
  return !has_outside() || outside_.agreement->required_by_same(first.parameter, place.parameter);
}

void SyncLedger::rebuild_buckets() {
  buckets_.clear();
  early_.clear();
  for (const std::uint32_t position : required_positions()) {
    if (buckets_.empty() || !may_join(buckets_.back(), position))
      buckets_.push_back({.first = position, .stamp = stamp_now()});
    Bucket& bucket = buckets_.back();
    ++bucket.count;
    const ParameterId id = parameter_at(position);
    bucket_of_[id.value] = static_cast<std::uint32_t>(buckets_.size() - 1);
    for (MemberIndex m = 0; m < members_.size(); ++m) {
      bucket.required += required_[cell(m, id)];
      bucket.submitted += required_[cell(m, id)] && submitted_[cell(m, id)] == stamp_now();
    }
  }
  for (std::uint32_t bucket = 0; bucket < buckets_.size(); ++bucket)
    if (buckets_[bucket].submitted == buckets_[bucket].required) early_.push_back(bucket);
  stale_ = false;
}

// A device that left stands for an empty registration of weight 0 and a posted sync.
void SyncLedger::register_empty(MemberIndex index) {
  Member& member = members_[index];
  require(member, index, nullptr);
  member.registered = member.synced = true;
  member.passes_on = false;
  member.weight = 0.0;
  member.owed = 0;
  ++registered_;
  ++synced_;
}

void SyncLedger::all_registered(std::vector<LedgerAction>& actions) {
  if (has_outside()) {
    outside_.asked = true;
    return actions.push_back(registrations());
  }
  double total = 0.0;
  for (const Member& member : members_) total += member.weight;
  open_generation(total, actions);
}

void SyncLedger::open_generation(double total_weight, std::vector<LedgerAction>& actions) {
  total_weight_ = total_weight;
  // Each weight is finite, yet a sum that f32 does not hold would make gradients 0 or NaN.
  if (total_weight_ > 0.0 && !std::isnormal(static_cast<float>(total_weight_))) return fail(bad_weight(), actions);
  if (stale_) rebuild_buckets();
  if (has_outside()) {
    launch_in_order(actions);
  } else {
    for (const std::uint32_t bucket : early_) try_launch(bucket, actions);
  }
  early_.clear();
  try_complete(actions);
}

bool SyncLedger::is_full(const Bucket& bucket) const noexcept {
  return bucket.required == (bucket.stamp == stamp_now() ? bucket.submitted : 0);
}

// Every process launches in this order, whoever is ready first.
void SyncLedger::launch_in_order(std::vector<LedgerAction>& actions) {
  if (!outside_.agreed) return;
  while (launched_ < buckets_.size() && is_full(buckets_[launched_])) {
    const bool commits = launched_ + 1 == buckets_.size();
    if (commits && synced_ < members_.size()) return;
    try_launch(launched_, actions);
  }
}

void SyncLedger::try_launch(std::uint32_t index, std::vector<LedgerAction>& actions) {
  Bucket& bucket = buckets_[index];
  if (bucket.launched_stamp == stamp_now()) return;
  bucket.launched_stamp = stamp_now();
  ++launched_;
  if (total_weight_ == 0.0) return;
  const ParameterId first = parameter_at(bucket.first);
  Launch launch{current_generation(), configuration_.layout->places().subspan(bucket.first, bucket.count),
                denominator(first), parts(first)};
  if (has_outside())
    launch.contributors = outside_.agreement->contributors(first);
  else
    for (MemberIndex m = 0; m < members_.size(); ++m)
      if (launch.parts[m].contributes) launch.contributors.push_back(m);
  actions.push_back(std::move(launch));
}

std::vector<Launch::Part> SyncLedger::parts(ParameterId id) const {
  std::vector<Launch::Part> parts(members_.size());
  for (MemberIndex m = 0; m < members_.size(); ++m) {
    const bool required = required_[cell(m, id)];
    parts[m] = {.required = required,
                .contributes = required && (members_[m].weight > 0.0 || members_[m].passes_on),
                .receives = required || configuration_.absent == Absent::zero,
                .absent = members_[m].left};
  }
  return parts;
}

double SyncLedger::denominator(ParameterId id) const {
  switch (configuration_.reduction) {
    case GradientReduction::sum: return 1.0;
    case GradientReduction::mean:
      if (configuration_.absent == Absent::zero)
        return static_cast<double>(members_.size() + configuration_.outside_devices);
      if (has_outside()) return outside_.agreement->devices(id);
      return static_cast<double>(
          std::ranges::count_if(std::views::iota(MemberIndex{0}, static_cast<MemberIndex>(members_.size())),
                                [&](MemberIndex m) { return bool{required_[cell(m, id)]}; }));
    case GradientReduction::weighted_mean: break;
  }
  if (configuration_.absent == Absent::zero) return total_weight_;
  double weight = has_outside() ? outside_.agreement->weight(id) : 0.0;
  for (MemberIndex m = 0; m < members_.size() && !has_outside(); ++m)
    if (required_[cell(m, id)]) weight += members_[m].weight;
  return weight > 0.0 ? weight : total_weight_;  // none of those that require it has examples of its own
}

// Completion is one step for all devices: none may be ahead by an update that another's failure undoes.
void SyncLedger::try_complete(std::vector<LedgerAction>& actions) {
  if (registered_ < members_.size() || synced_ < members_.size() || stale_ || launched_ < buckets_.size()) return;
  if (!has_outside()) return complete(actions);
  if (!outside_.agreed || std::exchange(outside_.committing, true)) return;
  actions.push_back(Commit{current_generation(), total_weight_ > 0.0 && !buckets_.empty()});
}

void SyncLedger::complete(std::vector<LedgerAction>& actions) {
  actions.push_back(Release{current_generation(), total_weight_});
  ++completed_;
  reset_members();
  if (has_outside() && members_left()) all_registered(actions);  // for those who go on elsewhere
}

void SyncLedger::reset_members() {
  registered_ = synced_ = launched_ = 0;
  early_.clear();
  outside_.asked = outside_.agreed = outside_.committing = false;
  for (MemberIndex index = 0; index < members_.size(); ++index) {
    Member& member = members_[index];
    member.registered = member.synced = false;
    member.owed = 0;
    member.left |= std::exchange(member.leaving, false);
    if (member.left) register_empty(index);
  }
}

}  // namespace tutti
