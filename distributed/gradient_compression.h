// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>
#include <tutti/backend/device.h>
#include <tutti/distributed/collectives/compressed_reduction.h>
#include <tutti/distributed/collectives/member.h>
#include <tutti/distributed/layout/gradient_layout.h>

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tutti {

/// A bucket that is to be reduced.
struct CompressionRequest {
  struct Member {
    Array gradient;            ///< the bucket, flat, overwritten with the result; undefined: it receives none
    bool contributes = false;  ///< false: stands for zeros, whatever it holds
  };
  std::span<const GradientLayout::Place> places;  ///< the bucket's gradients; lives as long as the group's round
  std::vector<Member> members;                    ///< all of this process's, also those that have left
  double denominator = 1.0;                       ///< result = (sum over all that contribute) / denominator
  GradientWire wire = GradientWire::native;       ///< type in which factors and what is not compressed travel
  double wire_scale = 1.0;                        ///< scale of what is not compressed
};

/// Replaces the all-reduce of gradients by one of something smaller, and keeps what that loses for later steps (error
/// feedback). Set in SyncOptions::compression; one object serves all devices that one group has in this process. The
/// group calls the first five functions, one at a time; whoever derives a class need not lock.
class GradientCompression {
 public:
  using State = std::vector<std::pair<std::string, Array>>;

  virtual ~GradientCompression() = default;

  /// Takes the group's parameters and members before the first step. Throws SyncError naming a parameter that it cannot
  /// serve, or if it has a group already.
  virtual void prepare(std::span<const SyncParameter>, const GroupMembers&) = 0;
  /// Says, for the error if it is not so, what has to be the same in all processes of a group as it begins: kind,
  /// options, and what was loaded. Asked after `prepare`. Default: nothing is compared.
  virtual std::string shared_settings() const { return {}; }
  /// Begins a bucket's reduction at its launch. Null: this bucket travels uncompressed, in all processes alike. What
  /// the reduction leaves in the compression's memory counts once the step is committed.
  virtual std::shared_ptr<CompressedReduction> begin(const CompressionRequest&) = 0;
  virtual void commit() = 0;  ///< everything of the step is launched, and its gradients will be applied
  /// Takes back the incomplete step, which was applied nowhere; called after a failure, when nothing runs any more.
  virtual void roll_back() = 0;

  /// All that a restart needs of this process, as arrays with unique names that a checkpoint can store
  /// (train/checkpoints/tensor_file.h); they share no storage with the compression. What two processes give under one
  /// name is the same, so that all of theirs together are the group's state. Called by a device's thread between
  /// its steps, when nothing can be launched. With Overlap::double_buffered after `flush`. Throws SyncError while a
  /// reduction runs.
  virtual State state() const = 0;
  /// Loads a state, that of this process or of the whole group, between steps as well, after the replicas were
  /// attached. Throws SyncError naming the array that is missing, unknown or of another shape or dtype, and changes
  /// nothing then.
  virtual void load_state(const State&) = 0;
};

}  // namespace tutti
