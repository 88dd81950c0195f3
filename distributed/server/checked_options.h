// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives/member.h>
#include <tutti/distributed/layout/gradient_layout.h>
#include <tutti/distributed/sync_options.h>

#include <span>

namespace tutti {

/// The options with their defaults filled in. Throws SyncError for values out of range and modes that exclude each
/// other.
SyncOptions checked_options(SyncOptions);

/// Throws SyncError naming the first parameter with sparse gradients, for a group of several processes whose engine
/// reduces none.
void refuse_across_processes(std::span<const SyncParameter>);

/// Throws SyncError naming the first parameter whose gradients cannot travel as the options say. Prepares the
/// compression, if there is one.
void prepare_transport(const SyncOptions&, std::span<const SyncParameter>, const GroupMembers&);

}  // namespace tutti
