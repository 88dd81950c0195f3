// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/observer/parameter_id.h>
#include <tutti/distributed/layout/gradient_layout.h>
#include <tutti/distributed/ledger/agreement.h>
#include <tutti/distributed/ledger/required_set.h>
#include <tutti/distributed/sync_options.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

namespace tutti {

using MemberIndex = std::uint32_t;  ///< a device's place in its group

/// Identifies a message's sender and step: groups are numbered from 1, generations within each from 1.
struct Stamp {
  MemberIndex member = 0;
  std::uint64_t group = 1;
  std::int64_t generation = 0;
};

/// Why a group failed: the first cause. `value` and `other` depend on the kind.
struct Fault {
  enum class Kind : std::uint8_t {
    device_failed,       ///< member reported a failure of its step
    bad_weight,          ///< negative or not finite
    bad_weight_outside,  ///< the same, of the device of number `value`, which another process has
    out_of_order,        ///< member spoke of generation `value` while `other` was due
    registered_twice,
    not_registered,  ///< a submission or sync before the registration
    synced_twice,
    has_left,  ///< member spoke after it had left
    unknown_parameter,
    not_required,  ///< submitted without having been registered
    submitted_twice,
    not_submitted,     ///< synced while a required parameter was still owed
    wrong_shape,       ///< found by the server
    wrong_dtype,       ///< found by the server
    wrong_rows,        ///< found by the server: a sparse gradient that does not fit, or one where a dense one belongs
    wrong_place,       ///< found by the server: outside the arena that was registered
    deadline,          ///< found by the server
    diverged,          ///< found by the server: replicas differ
    engine_failed,     ///< found by the server
    reduction_failed,  ///< found by whoever joined it
    collective,        ///< found by the server: devices asked for different collectives
    process_failed,    ///< found by the server: another process, of rank `value`, is lost or has failed
    cancelled,         ///< found by the server: SyncOptions::cancel was asked to stop
    closed,
  };
  Kind kind = Kind::closed;
  MemberIndex member = 0;
  std::int64_t generation = 0;
  std::optional<ParameterId> parameter = std::nullopt;
  std::int64_t value = 0;
  std::int64_t other = 0;
};

// --- what the ledger decides, in the order in which it is to be done

/// Reduce this bucket now: neighbours in the layout, required by the same members.
struct Launch {
  /// A member's part in it. Told here, for a member may leave with the very message that launches.
  struct Part {
    bool required = false;     ///< has submitted it
    bool contributes = false;  ///< has a weight above 0, or passes on what others' losses gave it
    bool receives = false;     ///< the result, by the Absent policy
    bool absent = false;       ///< left in an earlier generation
  };
  std::int64_t generation = 0;
  std::span<const GradientLayout::Place> places;  ///< places in the ledger's layout
  double denominator = 1.0;
  std::vector<Part> parts = {};  ///< one per member
  /// Numbers of the devices that contribute, of all processes, ascending.
  std::vector<std::uint32_t> contributors = {};
};
/// All members have registered: the other processes are to be asked, with these, and `agreed` told.
struct Agree {
  struct Registration {
    std::shared_ptr<const RequiredSet> required;  ///< null: nothing
    double weight = 0.0;
    bool contributes = false;  ///< its gradients count
    bool left = false;
    bool follows = false;  ///< has left, and receives results as before; filled by the server
  };
  std::int64_t generation = 0;
  std::vector<Registration> registrations;  ///< one per member
};
/// All is launched, and nothing in this process's backward can fail any more: `committed` is to be told when all
/// processes have come as far. That is when what was launched last is reduced; or, if nothing was, after an exchange.
struct Commit {
  std::int64_t generation = 0;
  bool launched = false;  ///< something was
};
/// The generation is complete: all devices may step. total_weight 0: nothing was reduced, gradients become undefined.
struct Release {
  std::int64_t generation = 0;
  double total_weight = 0.0;
};
/// The group failed: every waiter of the incomplete generation gets the fault.
struct Fail {
  Fault fault;
};
/// All members have joined again or left: `ahead` has the newest state, `behind` receive it.
struct Reform {
  std::uint64_t group = 0;
  MemberIndex ahead = 0;
  std::vector<MemberIndex> behind;
};
/// All members have joined again or left, and no group forms: `ahead` applied the last committed generation, in which
/// it took part, and left, and none of those that joined has applied it. Their joins are void.
struct Strand {
  MemberIndex ahead = 0;
  std::int64_t generation = 0;
};
using LedgerAction = std::variant<Launch, Agree, Commit, Release, Fail, Reform, Strand>;

/// Everything that the current generation still waits for.
struct Missing {
  std::vector<MemberIndex> registrations;
  std::vector<std::pair<MemberIndex, ParameterId>> gradients;
  std::vector<MemberIndex> syncs;
  std::vector<MemberIndex> joins;  ///< those missing in a failed group in which somebody waits to join again
  bool agreement = false;          ///< other processes', about what is required
  bool commit = false;             ///< other processes'
  std::vector<int> ranks;          ///< those of these processes that keep all waiting; filled by the server
};

/// The rules of gradient synchronisation as a pure state machine: no threads, arrays or clocks. Copyable, comparable
/// and hashable, so that every order of arrival can be searched. Each message costs O(1) whatever the number of
/// parameters; a changed required set costs the sets' size once. Completion releases all devices at once, so that at
/// most one generation is incomplete and one set of counters suffices: a device that registers the next one finds them
/// free. Memory: about 4 bytes per member and parameter.
/// Where there are other processes, all reduce the same buckets in the layout's order. They agree on what is required
/// once all members have registered, and the last bucket is launched only after all members have synced: whoever sees
/// it reduced knows that no process can fail in this generation's backward (docs/decisions/0020).
class SyncLedger {
 public:
  struct Configuration {
    std::uint32_t members = 1;          ///< devices of this process
    std::uint32_t outside_devices = 0;  ///< devices of other processes
    std::shared_ptr<const GradientLayout> layout;
    std::size_t bucket_bytes = 0;  ///< a bucket of several parameters is at most this long
    GradientReduction reduction = GradientReduction::weighted_mean;
    Absent absent = Absent::zero;
  };

  explicit SyncLedger(Configuration);

  // --- messages; each appends what it makes happen. In a failed or closed group they change nothing. `applied`: the
  // last generation of this group that the member is known to have applied to its replica; 0: none.
  /// `passes_on`: with weight 0 its gradients count nevertheless. They are those of other members' losses, which
  /// reached it by collectives.
  void register_parameters(Stamp, double weight, std::shared_ptr<const RequiredSet>, std::vector<LedgerAction>&,
                           bool passes_on = false);
  void submit(Stamp, ParameterId, std::vector<LedgerAction>&);
  void collective_sync(Stamp, std::vector<LedgerAction>&);
  void leave(Stamp, std::vector<LedgerAction>&, std::int64_t applied = 0);
  /// Answers Agree; void unless it was asked for that generation.
  void agreed(std::uint64_t group, std::int64_t generation, std::shared_ptr<const Agreement>,
              std::vector<LedgerAction>&);
  /// Answers Commit; void unless it was asked for that generation.
  void committed(std::uint64_t group, std::int64_t generation, std::vector<LedgerAction>&);
  void fail(const Fault&, std::vector<LedgerAction>&);  ///< the first fault counts
  void close(std::vector<LedgerAction>&);
  /// A member enters the group after the failed one. False (and no effect) unless the group has failed, is not closed,
  /// has no devices outside and `group` is the next number.
  bool join(MemberIndex, std::uint64_t group, std::int64_t last_step_applied, std::vector<LedgerAction>&,
            std::int64_t applied = 0);
  void abandon_joins();  ///< those who joined so far will have to join again

  /// Takes effect at once: only while no member has registered the current generation. Of another number of parameters
  /// only as long as none was ever required.
  void set_layout(std::shared_ptr<const GradientLayout>);

  // --- questions
  const GradientLayout& layout() const noexcept { return *configuration_.layout; }
  std::uint64_t group() const noexcept { return group_; }
  std::int64_t current_generation() const noexcept { return completed_ + 1; }  ///< the incomplete one
  const std::optional<Fault>& fault() const noexcept { return fault_; }
  bool closed() const noexcept { return closed_; }
  bool has_left(MemberIndex member) const { return members_[member].left; }
  bool all_left() const noexcept;  ///< devices of all processes, as far as is known
  bool is_launched(ParameterId) const;
  Missing missing() const;

  friend bool operator==(const SyncLedger& lhs, const SyncLedger& rhs) { return lhs.canonical() == rhs.canonical(); }
  std::size_t hash() const;

 private:
  using Clock32 = std::uint32_t;  // low bits of a generation: what carries another stamp is void, so nothing is cleared

  struct Member {
    bool registered = false;
    bool synced = false;
    bool left = false;
    bool leaving = false;  // has left, once the generation that it has synced is complete
    bool passes_on = false;
    double weight = 0.0;
    std::shared_ptr<const RequiredSet> required;  // the set that is marked in required_
    std::uint32_t owed = 0;                       // required and not yet submitted
    std::optional<std::int64_t> joined;           // last step applied, when waiting to re-form
    std::int64_t applied = 0;                     // last generation of this group applied, when it left or joined
  };
  struct Bucket {
    std::uint32_t first = 0;  // position in the layout
    std::uint32_t count = 0;
    std::uint32_t required = 0;   // submissions, over all members and parameters
    std::uint32_t submitted = 0;  // valid if stamp is current
    Clock32 stamp = 0;
    Clock32 launched_stamp = 0;
  };

  /// The exchange with other processes in the open generation.
  struct Outside {
    std::shared_ptr<const Agreement> agreement;  // the last generation's, until there is another
    bool asked = false;
    bool agreed = false;
    bool committing = false;
  };

  Clock32 stamp_now() const noexcept { return static_cast<Clock32>(current_generation()); }
  std::optional<Fault> misfit(Stamp) const;
  void require(Member&, MemberIndex, std::shared_ptr<const RequiredSet>);
  void register_empty(MemberIndex);
  std::vector<std::uint32_t> required_positions() const;
  bool may_join(const Bucket&, std::uint32_t position) const;
  void rebuild_buckets();
  bool is_full(const Bucket&) const noexcept;
  void try_launch(std::uint32_t bucket, std::vector<LedgerAction>&);
  void launch_in_order(std::vector<LedgerAction>&);
  void all_registered(std::vector<LedgerAction>&);
  void open_generation(double total_weight, std::vector<LedgerAction>&);
  void try_complete(std::vector<LedgerAction>&);
  void complete(std::vector<LedgerAction>&);
  void try_reform(std::vector<LedgerAction>&);
  bool has_applied_last(const Member& member) const { return completed_ > 0 && member.applied == completed_; }
  std::optional<MemberIndex> left_ahead() const;
  void reset_members();
  bool has_outside() const noexcept { return configuration_.outside_devices > 0; }
  bool members_left() const noexcept;
  Fault bad_weight() const;
  Agree registrations() const;
  std::vector<Launch::Part> parts(ParameterId) const;
  double denominator(ParameterId) const;
  std::size_t parameters() const noexcept { return bucket_of_.size(); }
  std::size_t cell(MemberIndex member, ParameterId id) const {
    return static_cast<std::size_t>(member) * parameters() + id.value;
  }
  ParameterId parameter_at(std::uint32_t position) const { return configuration_.layout->places()[position].parameter; }
  std::vector<std::uint64_t> canonical() const;

  Configuration configuration_;
  std::uint64_t group_ = 1;
  std::int64_t completed_ = 0;
  std::vector<Member> members_;
  std::vector<bool> required_;            // true in the cells of each member's counted set
  std::vector<Clock32> submitted_;        // stamp of the last submission, by cell
  std::vector<Bucket> buckets_;           // all that is required, in buckets; valid unless stale_
  std::vector<std::uint32_t> bucket_of_;  // place in buckets_, by parameter, if required
  bool stale_ = true;                     // a set or the layout has changed: rebuilt when all have registered
  std::vector<std::uint32_t> early_;      // buckets that were full before all had registered
  std::uint32_t registered_ = 0;
  std::uint32_t synced_ = 0;
  std::uint32_t launched_ = 0;
  double total_weight_ = 0.0;
  Outside outside_;
  std::optional<Fault> fault_;
  bool closed_ = false;
};

}  // namespace tutti
