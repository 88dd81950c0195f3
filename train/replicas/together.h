// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/train/checkpoints/checkpoint_folder.h>
#include <tutti/train/hook.h>

#include <optional>
#include <string>

namespace tutti {

class GradientSync;

/// The metrics of the group's first process, which the others get, too. Called by one thread of each process while no
/// other drives its devices. Throws the group's SyncError.
Metrics first_of_processes(GradientSync&, const Metrics& own);

/// Loads the newest checkpoint of the first process's folder on every process: that one alone reads, and sends what it
/// has read to the others, whose folders need not have it. Called as first_of_processes is. DataError on all processes,
/// naming those that have failed, if one has; nothing is changed on any then. Throws the group's SyncError.
std::optional<LoadedCheckpoint> load_newest_together(GradientSync&, CheckpointFolder&, const CheckpointParts&);
/// Loads just this one, of the first process's disk, in the same way; the others' paths do not count.
LoadedCheckpoint load_together(GradientSync&, CheckpointFolder&, const std::string& path, const CheckpointParts&);

}  // namespace tutti
