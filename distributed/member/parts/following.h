// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/member/parts/member_place.h>
#include <tutti/distributed/member/parts/member_share.h>
#include <tutti/distributed/member/parts/replica.h>
#include <tutti/distributed/member/parts/standing.h>
#include <tutti/distributed/member/parts/step_results.h>

#include <cstdint>
#include <exception>
#include <memory>

namespace tutti {

/// The end of a device's data, and what it takes from the others afterwards: their results, and the state of a group
/// that has formed since. For the thread that drives the device.
class Following {
 public:
  /// Takes references: the arguments outlive it.
  Following(const MemberPlace&, Standing&, Replica&, StepResults&, MemberShare&);

  /// The device leaves, with its last step finished. `follow`: it wants the others' results. Once it has left: false
  /// ends that.
  void leave(bool follow);
  void require() const;  ///< throws SyncError unless the device follows
  /// Waits for the others' next step and takes its result; false when all devices have left. Throws if the group has
  /// failed, or the result cannot be taken.
  bool follow();
  /// Takes over the state of a group that has formed since, if one has. Waits for nobody: it is the first answer.
  void take_over_formed_group();

 private:
  std::shared_ptr<SyncWaiter> next_answer();
  void take(const RoundResult&);
  void take_over(const ReplicaState&);
  void end();

  const MemberPlace place_;
  Standing& standing_;
  Replica& replica_;
  StepResults& results_;
  MemberShare& share_;
  bool follows_ = false;
  std::uint64_t left_group_ = 0;  // number of the device's group when it left
  std::exception_ptr lost_;  // why the results of the others' steps are of no use any more, until their state comes
};

}  // namespace tutti
