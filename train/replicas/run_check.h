// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>
#include <tutti/train/checkpoints/checkpoint_folder.h>
#include <tutti/train/eager_trainer.h>

#include <string>
#include <utility>
#include <vector>

namespace tutti {

class GradientSync;

/// Settings that the devices of a run need alike, each by its name and its value as text.
using RunSettings = std::vector<std::pair<std::string, std::string>>;

/// The settings of a trainer's call of train, which is about to begin: its limits, its plan, the place where it stands,
/// its optimizers' kinds, options and learning rates, its scaler's scale, and of its options those that decide on which
/// steps the group acts and in which type.
RunSettings settings_of_run(const EagerTrainerBase&);
/// The settings that decide when a folder's checkpoints are due.
RunSettings settings_of_folder(const CheckpointFolderOptions&);

/// Compares the settings of the devices of several processes. A collective: each device's thread calls it at the same
/// place. `name`: the device's, in errors. Error on all devices, naming the first setting that differs, two of the
/// devices and both values. Throws the group's SyncError.
void check_run(GradientSync&, Device, const std::string& name, const RunSettings& own);

}  // namespace tutti
