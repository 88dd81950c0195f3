// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/ledger/sync_ledger.h>

#include <tutti/tests/distributed/ledger/ledger_search.h>

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

namespace tutti::testing {

using Mask = std::uint8_t;  ///< a set of parameters, a bit for each

enum class Phase : std::uint8_t {
  idle,      ///< between steps
  stepping,  ///< has registered
  synced,    ///< waits
  released,  ///< has the result and has not stepped yet
  stopped,   ///< has heard of the failure
  joined,    ///< waits for the next group
  stranded,  ///< was told that none can form
  left,
};

struct Replica {
  Phase phase = Phase::idle;
  std::uint8_t leaving = 0;   ///< has left, and its step stands
  std::uint8_t followed = 1;  ///< its parameters are to equal the others'
  std::uint8_t weight = 0;
  std::uint8_t passes_on = 0;
  std::uint8_t took = 0;  ///< has applied the last committed generation of the group, in which it took part
  Mask required = 0;
  Mask submitted = 0;
  Mask result = 0;           ///< received in the generation whose result it has not applied
  std::uint8_t applied = 0;  ///< steps
  /// How often each parameter was updated, counted from the least of all devices: only differences matter, and an
  /// absolute count would tell apart states that have the same future.
  std::array<std::uint8_t, 3> version = {};

  bool registered() const { return phase == Phase::stepping || phase == Phase::synced || phase == Phase::left; }
  bool waits_for_nothing() const { return phase == Phase::synced || phase == Phase::left; }
  bool counts() const { return weight > 0 || passes_on; }
  void clear_step() { required = submitted = weight = passes_on = 0; }
  void leave_unfollowed() { *this = {.phase = Phase::left, .followed = 0, .took = took}; }
  friend bool operator==(const Replica&, const Replica&) = default;
};

/// What the devices have said, and what the rules owe them: a second account of a generation, without a counter.
struct World {
  std::array<Replica, 3> replicas = {};
  std::uint8_t members = 0;
  std::uint8_t parameters = 0;
  std::uint8_t group = 1;
  std::uint8_t generation = 1;
  Mask launched = 0;  ///< in this generation
  std::uint8_t failed = 0;
  std::uint8_t failures = 0;
  std::uint8_t turned = 0;    ///< the layout is in descending order of ids
  std::uint8_t may_turn = 1;  ///< in this generation
  std::uint8_t one_bucket = 0;
  // The other process, with one device.
  std::uint8_t outside = 0;  ///< there is one
  std::uint8_t asked = 0;    ///< what it requires in this generation
  std::uint8_t agreed = 0;   ///< it has answered
  std::uint8_t outside_left = 0;
  std::uint8_t all_gone = 0;  ///< they have agreed that nobody comes again
  Mask outside_required = 0;
  std::uint8_t outside_weight = 0;
  std::uint8_t committing = 0;  ///< asked whether it has come as far
  std::uint8_t committed = 0;
  friend bool operator==(const World&, const World&) = default;

  std::span<const Replica> all() const { return {replicas.data(), members}; }
  std::span<Replica> all() { return {replicas.data(), members}; }

  bool all_registered() const;
  bool members_left() const;  ///< those of this process
  bool all_left() const;      ///< as far as is known here
  bool complete() const;      ///< rule 8
  bool may_reform() const;
  bool stranded() const;  ///< one that left has applied the last committed generation, and nobody who joined has
  unsigned total_weight() const;
  Mask required() const;                   ///< by any
  Mask requirers(std::uint32_t id) const;  ///< members, a bit for each, and one for the other process
  Mask bucket_of(std::uint32_t id) const;  ///< 0 if nobody requires it
  Mask due() const;                        ///< rule 4: has to be launched by now, and nothing else may be
  bool agreement_due() const;              ///< the other process has to be asked by now, and no earlier
  bool commit_due() const;
  Agreement agreement() const;  ///< as it is due
  unsigned contributors(std::uint32_t id) const;
  double denominator(std::uint32_t id, Absent) const;
  bool replicas_equal() const;

  void apply(Replica&, bool count);  ///< a result
  void stop();                       ///< the group has failed
};
static_assert(std::has_unique_object_representations_v<World>);  // so that it can be hashed by its bytes

/// One more thing that happens.
struct Move {
  enum class Kind : std::uint8_t { begin, submit, sync, step, leave, fail, join, turn_layout, agree, commit };
  Kind kind = Kind::begin;
  MemberIndex member = 0;
  Mask parameters = 0;      ///< begin, agree: the set; submit: its id
  std::uint8_t weight = 0;  ///< begin, agree
  bool passes_on = false;   ///< begin
  bool left = false;        ///< agree: the other process's device
};

/// Compares what the ledger decides with what the rules owe. Throws Violation (without a trace).
class LedgerJudge {
 public:
  LedgerJudge(const SyncLedger& ledger, World& world, Absent absent)
      : ledger_(ledger), world_(world), absent_(absent) {}

  /// `expected`: why the group must fail now, if it must.
  void judge(const std::vector<LedgerAction>&, std::optional<Fault::Kind> expected, MemberIndex culprit);
  void check_questions() const;
  void check_missing() const;

 private:
  void judge(const Launch&);
  void judge(const Agree&);
  void judge(const Commit&);
  void judge(const Release&);
  void judge(const Fail&);
  void judge(const Reform&);
  void judge(const Strand&);
  void check_bucket(const Launch&) const;

  const SyncLedger& ledger_;
  World& world_;
  Absent absent_;
  std::optional<Fault::Kind> expected_;
  MemberIndex culprit_ = 0;
};

/// In every state: what a device must not say, and what comes from another group.
void probe_ledger(const SyncLedger&, const World&);

inline void must(bool holds, Property property, const char* what) {
  if (!holds) throw Violation(property, what);
}

}  // namespace tutti::testing
