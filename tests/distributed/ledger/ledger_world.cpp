// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/distributed/ledger/ledger_world.h>

#include <tutti/tests/distributed/ledger/ledger_driver.h>

#include <algorithm>

namespace tutti::testing {

bool World::all_registered() const { return std::ranges::all_of(all(), &Replica::registered); }

bool World::all_left() const { return members_left() && (!outside || all_gone); }

bool World::members_left() const {
  return std::ranges::all_of(all(), [](const Replica& replica) { return replica.phase == Phase::left; });
}

bool World::complete() const {
  return !failed && !all_left() && (!outside || committed) && std::ranges::all_of(all(), &Replica::waits_for_nothing);
}

bool World::agreement_due() const { return outside && !failed && !asked && all_registered(); }

bool World::commit_due() const {
  return outside && !failed && agreed && !committing && !all_left() &&
         launched == (total_weight() > 0 ? required() : 0) && std::ranges::all_of(all(), &Replica::waits_for_nothing);
}

// The other process comes last.
Agreement World::agreement() const {
  Agreement agreement;
  const auto add = [&](Mask mask, unsigned weight, bool counts, bool left) {
    Ids ids;
    for (std::uint32_t id = 0; id < parameters; ++id)
      if ((mask >> id & 1U) != 0) ids.push_back(id);
    const auto set = required_set(ids);
    const auto place = std::ranges::find(agreement.sets, set) - agreement.sets.begin();
    if (place == std::ssize(agreement.sets)) agreement.sets.push_back(set);
    agreement.registrations.push_back({static_cast<std::uint32_t>(place), static_cast<double>(weight), counts, left});
  };
  for (const Replica& replica : all())
    add(replica.required, replica.weight, replica.counts(), replica.phase == Phase::left);
  add(outside_required, outside_weight, outside_weight > 0, outside_left);
  return agreement;
}

unsigned World::contributors(std::uint32_t id) const {
  unsigned contributors = (outside_required >> id & 1U) != 0 && outside_weight > 0;
  for (const Replica& replica : all()) contributors += (replica.required >> id & 1U) != 0 && replica.counts();
  return contributors;
}

bool World::may_reform() const {
  return failed && !outside && !all_left() && std::ranges::all_of(all(), [](const Replica& replica) {
           return replica.phase == Phase::joined || replica.phase == Phase::left;
         });
}

bool World::stranded() const {
  const auto in = [this](Phase phase) {
    return std::ranges::any_of(all(), [phase](const Replica& each) { return each.phase == phase && each.took; });
  };
  return in(Phase::left) && !in(Phase::joined);
}

unsigned World::total_weight() const {
  unsigned total = outside_weight;
  for (const Replica& replica : all()) total += replica.weight;
  return total;
}

Mask World::required() const {
  Mask required = outside_required;
  for (const Replica& replica : all()) required |= replica.required;
  return required;
}

Mask World::requirers(std::uint32_t id) const {
  Mask members_of_it = 0;
  for (std::size_t member = 0; member < members; ++member)
    if ((replicas[member].required >> id & 1U) != 0) members_of_it |= static_cast<Mask>(1U << member);
  if ((outside_required >> id & 1U) != 0) members_of_it |= static_cast<Mask>(1U << members);
  return members_of_it;
}

// Everything fits into one bucket or each is one by itself, so a bucket is the run of like neighbours around `id`.
Mask World::bucket_of(std::uint32_t id) const {
  if (requirers(id) == 0) return 0;
  auto bucket = static_cast<Mask>(1U << id);
  if (!one_bucket) return bucket;
  for (std::uint32_t next = id + 1; next < parameters && requirers(next) == requirers(id); ++next)
    bucket |= static_cast<Mask>(1U << next);
  for (std::uint32_t before = id; before > 0 && requirers(before - 1) == requirers(id); --before)
    bucket |= static_cast<Mask>(1U << (before - 1));
  return bucket;
}

Mask World::due() const {
  if (failed || !all_registered() || total_weight() == 0 || (outside && (!agreed || all_left()))) return 0;
  Mask owed = 0;
  for (const Replica& replica : all()) owed |= replica.required & static_cast<Mask>(~replica.submitted);
  Mask due = 0;
  if (!outside) {
    for (std::uint32_t id = 0; id < parameters; ++id)
      if ((bucket_of(id) & owed) == 0) due |= bucket_of(id);
    return due;
  }
  // In the layout's order; the last bucket once all have synced.
  for (std::uint32_t position = 0; position < parameters; ++position) {
    const Mask bucket = bucket_of(turned ? parameters - 1U - position : position);
    if (bucket == 0) continue;
    const bool last = (due | bucket) == required();
    if ((bucket & owed) != 0 || (last && !std::ranges::all_of(all(), &Replica::waits_for_nothing))) break;
    due |= bucket;
  }
  return due;
}

double World::denominator(std::uint32_t id, Absent absent) const {
  if (absent == Absent::zero) return total_weight();
  unsigned total = (outside_required >> id & 1U) != 0 ? outside_weight : 0U;
  for (const Replica& replica : all())
    if ((replica.required >> id & 1U) != 0) total += replica.weight;
  return total > 0 ? total : total_weight();
}

bool World::replicas_equal() const {
  for (const Replica& lhs : all())
    for (const Replica& rhs : all())
      if (lhs.followed && rhs.followed && lhs.applied == rhs.applied && lhs.version != rhs.version) return false;
  return true;
}

void World::apply(Replica& replica, bool count) {
  ++replica.applied;
  if (replica.phase != Phase::left) replica.took = 1;
  for (std::uint32_t id = 0; id < parameters; ++id)
    if (count) replica.version[id] = static_cast<std::uint8_t>(replica.version[id] + (replica.result >> id & 1U));
  replica.result = 0;
  for (std::uint32_t id = 0; id < parameters; ++id) {
    std::uint8_t least = 255;
    for (const Replica& each : all())
      if (each.followed) least = std::min(least, each.version[id]);
    for (Replica& each : all())
      if (each.followed) each.version[id] = static_cast<std::uint8_t>(each.version[id] - least);
  }
}

void World::stop() {
  failed = 1;
  ++failures;
  launched = 0;
  for (Replica& replica : all()) {
    if (replica.phase == Phase::released) continue;  // a complete generation stands
    replica.clear_step();
    replica.result = 0;
    if (replica.phase == Phase::left || replica.leaving) {  // gets no state from the next group
      replica.leave_unfollowed();
      continue;
    }
    replica.phase = Phase::stopped;
  }
}

}  // namespace tutti::testing
