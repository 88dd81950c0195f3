// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/distributed/ledger/ledger_driver.h>
#include <tutti/tests/distributed/ledger/ledger_world.h>

#include <algorithm>
#include <utility>

namespace tutti::testing {

void LedgerJudge::judge(const std::vector<LedgerAction>& actions, std::optional<Fault::Kind> expected,
                        MemberIndex culprit) {
  expected_ = expected;
  culprit_ = culprit;
  for (const LedgerAction& action : actions)
    std::visit([this](const auto& alternative) { judge(alternative); }, action);
  must(!expected_, Property::failure_heard, "the failure was not announced");
  must(world_.launched == world_.due(), Property::launched_in_time, "all have submitted, yet it is not launched");
  must(!world_.agreement_due() && !world_.commit_due(), Property::processes_told, "the other process was not asked");
  must(!world_.complete(), Property::released_in_time, "complete, yet not released");
  must(!world_.may_reform(), Property::reforms, "all have joined or left, yet no group forms");
}

void LedgerJudge::judge(const Launch& launch) {
  must(!world_.failed, Property::failure_heard, "launched in a failed group");
  must(launch.generation == world_.generation, Property::generations_apart, "launched for another generation");
  must(!launch.places.empty(), Property::buckets_uniform, "an empty bucket");
  check_bucket(launch);
  if (world_.outside) {  // all before it in the layout are launched
    const auto before = [&](std::uint32_t id) {
      const std::uint32_t first = ids_of(launch).front();
      return world_.turned ? id > first : id < first;
    };
    for (std::uint32_t id = 0; id < world_.parameters; ++id)
      must(!before(id) || (world_.required() & ~world_.launched & (1U << id)) == 0, Property::launched_in_time,
           "launched before another that comes first in the layout");
  }
  for (const std::uint32_t id : ids_of(launch)) {
    const auto bit = static_cast<Mask>(1U << id);
    must((world_.launched & bit) == 0, Property::launched_once, "launched twice");
    must((world_.due() & bit) != 0, Property::launched_in_time, "launched before all had registered and submitted");
    world_.launched |= bit;
    must(launch.contributors.size() == world_.contributors(id), Property::sum_of_requirers,
         "wrong number of contributors");
    must(launch.denominator == world_.denominator(id, absent_), Property::sum_of_requirers, "wrong denominator");
    for (MemberIndex member = 0; member < world_.members; ++member) {
      Replica& replica = world_.replicas[member];
      const bool requires_it = (replica.required & bit) != 0;
      const Launch::Part& part = launch.parts[member];
      must(part.required == requires_it, Property::sum_of_requirers, "wrong requirers");
      must(part.contributes == (requires_it && replica.counts()), Property::sum_of_requirers, "wrong contributors");
      must(part.receives == (requires_it || absent_ == Absent::zero), Property::sum_of_requirers, "wrong receivers");
      must(part.absent == (replica.phase == Phase::left), Property::sum_of_requirers, "wrong absentees");
      if (part.receives) replica.result |= bit;
    }
  }
}

void LedgerJudge::check_bucket(const Launch& launch) const {
  must(world_.total_weight() > 0, Property::launched_if_needed, "launched although no device has examples");
  Mask bucket = 0;
  for (const std::uint32_t id : ids_of(launch)) {
    must(world_.requirers(id) != 0, Property::launched_if_needed, "launched although nobody requires it");
    bucket |= static_cast<Mask>(1U << id);
  }
  must(bucket == world_.bucket_of(ids_of(launch).front()) || !world_.all_registered(), Property::buckets_uniform,
       "not the run of neighbours that the same devices require");
}

void LedgerJudge::judge(const Agree& agree) {
  must(world_.agreement_due() && agree.generation == world_.generation, Property::processes_told,
       "asked before all have registered, or twice");
  for (MemberIndex member = 0; member < world_.members; ++member) {
    const Replica& replica = world_.replicas[member];
    const Agree::Registration& told = agree.registrations[member];
    Mask required = 0;
    if (told.required)
      for (const ParameterId id : told.required->parameters()) required |= static_cast<Mask>(1U << id.value);
    must(required == replica.required && told.weight == replica.weight && told.contributes == replica.counts() &&
             told.left == (replica.phase == Phase::left),
         Property::processes_told, "not what was registered");
  }
  world_.asked = 1;
}

void LedgerJudge::judge(const Commit& commit) {
  must(world_.commit_due() && commit.generation == world_.generation, Property::processes_told,
       "asked before all is launched and synced, or twice");
  must(commit.launched == (world_.launched != 0), Property::processes_told, "an empty round needs an exchange");
  world_.committing = 1;
}

void LedgerJudge::judge(const Release& release) {
  must(!world_.failed, Property::failure_heard, "released in a failed group");
  must(release.generation == world_.generation, Property::generations_apart, "released another generation");
  must(world_.complete(), Property::released_in_time, "released before all had registered and synced");
  must(world_.total_weight() == 0 || world_.launched == world_.required(), Property::released_in_time,
       "released before all was launched");
  must(release.total_weight == world_.total_weight(), Property::sum_of_requirers, "wrong total weight");
  for (Replica& replica : world_.all()) {
    const bool steps_later = replica.phase == Phase::synced && !replica.leaving;
    replica.phase = steps_later ? Phase::released : Phase::left;
    replica.leaving = 0;
    replica.took = 0;
    replica.clear_step();
    if (!steps_later && replica.followed) world_.apply(replica, absent_ == Absent::zero);
  }
  ++world_.generation;
  world_.asked = world_.agreed = world_.outside_required = world_.outside_weight = 0;
  world_.committing = world_.committed = 0;
  world_.launched = 0;
  world_.may_turn = 1;
}

void LedgerJudge::judge(const Fail& failure) {
  must(expected_.has_value() && !world_.failed, Property::failure_heard, "failed without a cause");
  must(failure.fault.kind == *expected_ && failure.fault.member == culprit_, Property::failure_heard, "wrong cause");
  expected_.reset();
  world_.stop();
}

void LedgerJudge::judge(const Reform& reform) {
  must(world_.may_reform(), Property::reforms, "a group forms before all have joined or left");
  must(!world_.stranded(), Property::commits_stand, "a step that was applied would be taken again");
  must(reform.group == world_.group + 1U, Property::reforms, "the next group has the wrong number");
  std::uint8_t newest = 0;
  for (const Replica& replica : world_.all())
    if (replica.phase == Phase::joined) newest = std::max(newest, replica.applied);
  const Replica ahead = world_.replicas[reform.ahead];
  must(ahead.phase == Phase::joined && ahead.applied == newest, Property::reforms, "not the newest is ahead");
  for (MemberIndex member = 0; member < world_.members; ++member) {
    Replica& replica = world_.replicas[member];
    const bool behind = replica.phase == Phase::joined && replica.applied < newest;
    must((std::ranges::count(reform.behind, member) == 1) == behind, Property::reforms, "wrong devices are behind");
    if (behind) replica.version = ahead.version;
    replica.took = 0;
    if (replica.phase != Phase::joined) continue;
    replica.applied = newest;
    replica.phase = Phase::idle;
  }
  world_.failed = 0;
  ++world_.group;
  world_.generation = 1;
  world_.may_turn = 1;
}

void LedgerJudge::judge(const Strand& strand) {
  must(world_.may_reform() && world_.stranded(), Property::commits_stand, "a group that may form does not");
  const Replica& ahead = world_.replicas[strand.ahead];
  must(ahead.phase == Phase::left && ahead.took, Property::commits_stand, "not who is ahead");
  must(strand.generation == world_.generation - 1, Property::commits_stand, "not the last committed generation");
  for (Replica& replica : world_.all())
    if (replica.phase == Phase::joined) replica.phase = Phase::stranded;
}

void LedgerJudge::check_questions() const {
  constexpr auto kWhich = Property::missing_is_named;
  must(ledger_.group() == world_.group, kWhich, "group number");
  must(ledger_.current_generation() == world_.generation, kWhich, "generation number");
  must(ledger_.fault().has_value() == (world_.failed != 0), kWhich, "fault");
  must(ledger_.all_left() == world_.all_left(), kWhich, "all_left");
  must(world_.replicas_equal(), Property::replicas_equal, "the same number of steps, different parameters");
  for (MemberIndex member = 0; member < world_.members; ++member)
    must(ledger_.has_left(member) == (world_.replicas[member].phase == Phase::left), kWhich, "has_left");
}

void LedgerJudge::check_missing() const {
  Missing expected;
  bool joining = false;
  for (const Replica& replica : world_.all()) joining |= replica.phase == Phase::joined;
  for (MemberIndex member = 0; member < world_.members; ++member) {
    const Replica& replica = world_.replicas[member];
    if (joining && replica.phase != Phase::left && replica.phase != Phase::joined) expected.joins.push_back(member);
    if (world_.failed) continue;
    if (!replica.registered()) expected.registrations.push_back(member);
    if (replica.phase == Phase::stepping) expected.syncs.push_back(member);
    for (std::uint32_t id = 0; id < world_.parameters; ++id)
      if ((replica.required >> id & 1U) != 0 && (replica.submitted >> id & 1U) == 0)
        expected.gradients.emplace_back(member, ParameterId{id});
  }
  const Missing missing = ledger_.missing();
  must(missing.registrations == expected.registrations && missing.gradients == expected.gradients &&
           missing.syncs == expected.syncs && missing.joins == expected.joins,
       Property::missing_is_named, "what is missing");
  must(missing.agreement == (!world_.failed && world_.asked && !world_.agreed) &&
           missing.commit == (!world_.failed && world_.committing),
       Property::missing_is_named, "that another process is missing");
  for (std::uint32_t id = 0; id < world_.parameters && !world_.failed; ++id)
    if (world_.total_weight() > 0 && world_.all_registered() && !world_.outside)
      must(ledger_.is_launched({id}) == ((world_.launched >> id & 1U) != 0), Property::missing_is_named, "is_launched");
}

}  // namespace tutti::testing
