// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/train/checkpoints/checkpoint_folder.h>
#include <tutti/train/hook.h>

#include <optional>

namespace tutti {

class GradientSync;

/// The metrics of the group's first process, which the others get, too. Called by one thread of each process while no
/// other drives its devices. Throws the group's SyncError.
Metrics first_of_processes(GradientSync&, const Metrics& own);

/// Loads the newest checkpoint on every process, each from its own folder, which has to be the same: called as
/// first_of_processes is. DataError on all processes, naming what each found, if one has failed or has loaded another.
std::optional<LoadedCheckpoint> load_newest_together(GradientSync&, CheckpointFolder&, const CheckpointParts&);

}  // namespace tutti
