// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/distributed/ledger/ledger_driver.h>
#include <tutti/tests/distributed/ledger/ledger_world.h>

namespace tutti::testing {

namespace {

using Kind = Fault::Kind;
using Actions = std::vector<LedgerAction>;

auto registration(Stamp stamp, const Ids& ids, double weight) {
  return [=, set = required_set(ids)](SyncLedger& copy, Actions& actions) {
    copy.register_parameters(stamp, weight, set, actions);
  };
}

auto submission(Stamp stamp, std::uint32_t id) {
  return [=](SyncLedger& copy, Actions& actions) { copy.submit(stamp, {id}, actions); };
}

auto sync(Stamp stamp) {
  return [=](SyncLedger& copy, Actions& actions) { copy.collective_sync(stamp, actions); };
}

/// Says one thing to a copy of the ledger.
class Probe {
 public:
  Probe(const SyncLedger& ledger, const World& world) : ledger_(ledger), world_(world) {}

  void stale_messages(MemberIndex member) const {
    for (const std::uint64_t group : {world_.group - 1U, world_.group + 1U})
      for (const std::int64_t generation : {1, 2}) {
        const Stamp stamp{member, group, generation};
        everything(stamp, [&](auto say) { changes_nothing(say); });
        changes_nothing([&](SyncLedger& copy, Actions& actions) { copy.leave(stamp, actions); });
        if (group == world_.group + 1U && world_.failed) continue;  // the group that it may join
        changes_nothing([&](SyncLedger& copy, Actions& actions) {
          must(!copy.join(member, group, 9, actions), Property::reforms, "joined a group that is not next");
        });
      }
  }

  void in_failed_group(MemberIndex member) const {
    everything(now(member), [&](auto say) { changes_nothing(say); });
    changes_nothing([&](SyncLedger& copy, Actions& actions) {
      copy.fail({.kind = Kind::deadline}, actions);
      must(copy.fault()->kind == ledger_.fault()->kind, Property::failure_heard, "not the first fault counts");
    });
  }

  void misuse(MemberIndex member) const {
    const Replica& replica = world_.replicas[member];
    if (replica.phase == Phase::left || replica.leaving)
      return everything(now(member), [&](auto say) { fails(say, Kind::has_left, member); });
    for (const std::int64_t wrong : {world_.generation - 1, world_.generation + 1})
      everything({member, world_.group, wrong}, [&](auto say) { fails(say, Kind::out_of_order, member); });
    if (!replica.registered()) {
      fails(submission(now(member), 0), Kind::not_registered, member);
      fails(sync(now(member)), Kind::not_registered, member);
      fails(registration(now(member), {world_.parameters}, 1.0), Kind::unknown_parameter, member);
      fails(registration(now(member), {0}, -1.0), Kind::bad_weight, member);
      return;
    }
    fails(registration(now(member), {}, 1.0), Kind::registered_twice, member);
    fails(submission(now(member), world_.parameters), Kind::unknown_parameter, member);
    for (std::uint32_t id = 0; id < world_.parameters; ++id)
      if ((replica.required >> id & 1U) == 0)
        fails(submission(now(member), id), Kind::not_required, member);
      else if ((replica.submitted >> id & 1U) != 0)
        fails(submission(now(member), id), Kind::submitted_twice, member);
    if (replica.phase == Phase::synced)
      fails(sync(now(member)), Kind::synced_twice, member);
    else if (replica.required != replica.submitted)
      fails(sync(now(member)), Kind::not_submitted, member);
  }

  void other_process() const {
    const auto agreement = std::make_shared<const Agreement>(world_.agreement());
    for (const std::uint64_t group : {world_.group - 1U, world_.group + 0U, world_.group + 1U})
      for (const std::int64_t generation : {world_.generation - 1, world_.generation + 0, world_.generation + 1}) {
        const bool now = group == world_.group && generation == world_.generation && !world_.failed;
        if (!now || !world_.asked || world_.agreed)
          changes_nothing(
              [&](SyncLedger& copy, Actions& actions) { copy.agreed(group, generation, agreement, actions); });
        if (!now || !world_.committing)
          changes_nothing([&](SyncLedger& copy, Actions& actions) { copy.committed(group, generation, actions); });
      }
    for (MemberIndex member = 0; member < world_.members && world_.outside; ++member)
      changes_nothing([&](SyncLedger& copy, Actions& actions) {
        must(!copy.join(member, world_.group + 1U, 9, actions), Property::reforms, "formed without the other process");
      });
  }

  void closing() const {
    SyncLedger copy = ledger_;
    Actions actions;
    copy.close(actions);
    must(actions.size() == (world_.failed ? 0U : 1U), Property::failure_heard, "closing fails the group, once");
    for (MemberIndex member = 0; member < world_.members; ++member)
      must(!copy.join(member, copy.group() + 1, 0, actions), Property::reforms, "a closed group forms again");
  }

 private:
  Stamp now(MemberIndex member) const { return {member, world_.group, world_.generation}; }

  template <class Check> static void everything(Stamp stamp, Check check) {
    check(registration(stamp, {0}, 1.0));
    check(submission(stamp, 0));
    check(sync(stamp));
  }

  template <class Say> void changes_nothing(Say say) const {
    SyncLedger copy = ledger_;
    Actions actions;
    say(copy, actions);
    must(actions.empty() && copy == ledger_, Property::old_groups_mute, "a message of another group was counted");
  }

  template <class Say> void fails(Say say, Kind kind, MemberIndex member) const {
    SyncLedger copy = ledger_;
    Actions actions;
    say(copy, actions);
    const auto* failure = actions.size() == 1 ? std::get_if<Fail>(&actions.front()) : nullptr;
    must(failure && copy.fault() && failure->fault.kind == kind && failure->fault.member == member,
         Property::misuse_fails, "misuse does not fail the group with its cause");
  }

  const SyncLedger& ledger_;
  const World& world_;
};

}  // namespace

void probe_ledger(const SyncLedger& ledger, const World& world) {
  const Probe probe(ledger, world);
  for (MemberIndex member = 0; member < world.members; ++member) {
    probe.stale_messages(member);
    world.failed ? probe.in_failed_group(member) : probe.misuse(member);
  }
  probe.other_process();
  probe.closing();
}

}  // namespace tutti::testing
