// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/nn/module.h>
#include <tutti/optim/optimizer.h>

#include <map>
#include <string>

namespace tutti {

/// Whatever a training run wants to find again: {"epoch", "3"}. Kept beside the tensors.
using CheckpointNotes = std::map<std::string, std::string>;

/// Writes a module's parameters and buffers and, where given, an optimizer's state to one file, which replaces `path`
/// in one step. The layout is safetensors (train/tensor_file.h): the module's tensors under their own names, the
/// optimizer's arrays as "optimizer:<position>:<name>". Waits for the devices. Throws DataError naming the path.
void save_checkpoint(const std::string& path, Module&, const Optimizer* = nullptr, const CheckpointNotes& = {});

/// Gives module and optimizer the values of a file, on the devices where they are now, and returns the notes.
/// Parameters keep their identity. Throws DataError naming path and tensor when the file is damaged, of another
/// version, without a wanted optimizer state, or does not fit: tensors missing, unknown, or of another shape or type.
/// Nothing is changed then.
CheckpointNotes load_checkpoint(const std::string& path, Module&, Optimizer* = nullptr);

}  // namespace tutti
