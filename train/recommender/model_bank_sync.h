// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>
#include <tutti/train/recommender/model_bank.h>

#include <span>

namespace tutti {

class GradientSync;

/// Loads from a model bank on all processes of a group: each reads the files itself, and what they have read, and
/// chosen of it, has to be the same, bit by bit, before any of it is installed. `replicas`: this process's. Called by
/// one thread of each process while no other drives its devices. DataError on all processes, naming the ranks, where
/// one cannot read, or has read something else. Throws the group's SyncError, and what `after` hooks throw, which the
/// caller has to tell the others.
void load_model_bank_together(GradientSync&, std::span<Module* const> replicas, std::span<const ModelBankSource>,
                              std::span<const LoadHook> hooks);
/// The same while devices train. A collective: each device's thread calls it at the same place, the first one of each
/// process with the process's replicas, others with none.
void load_model_bank_together(GradientSync&, Device, std::span<Module* const> replicas,
                              std::span<const ModelBankSource>, std::span<const LoadHook> hooks);

}  // namespace tutti
