// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives/member.h>
#include <tutti/distributed/layout/gradient_layout.h>
#include <tutti/distributed/ledger/sync_ledger.h>

#include <chrono>
#include <exception>
#include <string>
#include <vector>

namespace tutti {

/// Names by which users know a group's members and parameters.
struct SyncNames {
  const GroupMembers& members;
  const std::vector<SyncParameter>& parameters;
  const std::vector<std::string>& busy;  ///< activity of each member; empty: not busy

  std::string member(MemberIndex) const;     ///< "cpu:1 (busy: evaluating)"
  std::string process() const;               ///< "rank 1 "; "" where there is one process
  std::string parameter(ParameterId) const;  ///< "\"fc2.weight\""
};

/// `[sync] ...`: what failed, on which device, in which generation. `cause` (may be null) is what a device threw;
/// `detail` what the server found.
std::string fault_text(const Fault&, const std::exception_ptr& cause, const std::string& detail, const SyncNames&);

/// `[sync] waited 10 s in generation 118 for ...`: devices that have not registered, gradients not submitted, devices
/// that have not joined.
std::string missing_text(const Missing&, std::int64_t generation, std::chrono::nanoseconds waited, const SyncNames&);

/// `[sync] waited 10 s before generation 118 for the replica check of cpu:1`. `ranks`: processes that it waits for,
/// where no device here is missing.
std::string missing_checks_text(const std::vector<MemberIndex>&, std::int64_t generation,
                                std::chrono::nanoseconds waited, const SyncNames&, const std::vector<int>& ranks = {});

}  // namespace tutti
