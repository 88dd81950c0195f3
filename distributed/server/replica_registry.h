// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives/member.h>
#include <tutti/distributed/layout/gradient_layout.h>
#include <tutti/distributed/ledger/sync_ledger.h>
#include <tutti/distributed/messages/replica_check.h>

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace tutti {

/// The parameters, buffers and updated parameters that the replicas of a group declare. The first member's
/// declaration is kept, and every other must equal it; else SyncError naming the first thing that differs, both devices
/// and both values. Thread-safe, but for what is said to be read while messages are processed.
class ReplicaRegistry {
 public:
  /// `members` outlive the registry.
  explicit ReplicaRegistry(const GroupMembers& members) : members_(members) {}

  /// True if parameters were declared before, and are these.
  bool has_same_parameters(MemberIndex, std::span<const SyncParameter>) const;
  /// Throws SyncError after `close_parameters`; while messages are processed.
  void refuse_late_parameters(MemberIndex) const;
  /// Keeps the first member's parameters; while messages are processed.
  void set_parameters(MemberIndex, std::vector<SyncParameter>);
  /// The first step has begun: parameters are declared by now, or never.
  void close_parameters() noexcept { parameters_closed_ = true; }
  void declare_frozen(MemberIndex, std::vector<SyncParameter>);
  void declare_buffers(MemberIndex, std::vector<SyncParameter>);
  /// Declares, for each parameter, whether the member has an optimizer for it; each group anew, since devices may
  /// attach more before its first step.
  void declare_updates(MemberIndex, std::uint64_t group, std::vector<bool>);

  /// Keeps what the first replica holds before its first step.
  void declare_values(ReplicaDigest);
  ReplicaDigest values() const;  ///< copy of these; empty: no replica has begun a step

  bool is_empty() const;  ///< no replica has declared parameters or buffers
  /// Copies the parameters: for who reads them beside the messages.
  std::vector<SyncParameter> copy_of_parameters() const;
  /// Read while messages are processed: the parameters are written then, and constant from the first step on.
  const std::vector<SyncParameter>& parameters() const noexcept { return parameters_.members; }
  /// Read while messages of a step are processed: constant from the first step on.
  const std::vector<SyncParameter>& buffers() const noexcept { return buffers_.members; }

 private:
  struct Declaration {
    std::optional<MemberIndex> by;
    std::vector<SyncParameter> members;
  };
  struct DeclaredUpdates {
    std::uint64_t group = 0;
    MemberIndex by = 0;
    std::vector<bool> updated;
  };
  void refuse_other(std::string_view kind, MemberIndex, std::span<const SyncParameter>, const Declaration&) const;
  void declare(std::string_view kind, Declaration&, MemberIndex, std::vector<SyncParameter>);

  const GroupMembers& members_;
  mutable std::mutex mutex_;  // guards the declarations, which devices' threads read and write
  Declaration parameters_;
  Declaration frozen_;
  Declaration buffers_;
  DeclaredUpdates updates_;
  ReplicaDigest values_;
  bool parameters_closed_ = false;  // touched while messages are processed
};

}  // namespace tutti
