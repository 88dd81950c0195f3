// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/nn/module.h>
#include <tutti/optim/optimizer.h>
#include <tutti/optim/weight_average.h>

#include <map>
#include <string>

namespace tutti {

/// Whatever a training run wants to find again: {"epoch", "3"}, or the text of a ReduceOnPlateau's or GradientScaler's
/// state. Kept beside the tensors.
using CheckpointNotes = std::map<std::string, std::string>;

// The simple form of a checkpoint, one file; train/checkpoints/checkpoint_folder.h keeps all that a run needs.

/// Writes a module's parameters and buffers and, where given, the state of an optimizer and of an average of weights to
/// one file, which replaces `path` in one step. The layout is safetensors (train/checkpoints/tensor_file.h): the
/// module's tensors under their own names, the optimizer's arrays as "optimizer:<position>:<name>", the averages as
/// "average:<position>". Where dropout layers draw is kept too. Waits for the devices. Throws DataError naming the
/// path.
void save_checkpoint(const std::string& path, Module&, const Optimizer* = nullptr, const CheckpointNotes& = {},
                     const WeightAverage* = nullptr);

/// Gives module, optimizer and average the values of a file, on the devices where they are now, and returns the notes.
/// Parameters keep their identity. Throws DataError naming path and tensor when the file is damaged, of another
/// version, without a wanted state, or does not fit: tensors missing, unknown, or of another shape or type.
/// Nothing is changed then.
CheckpointNotes load_checkpoint(const std::string& path, Module&, Optimizer* = nullptr, WeightAverage* = nullptr);

}  // namespace tutti
