// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/train/checkpoints/checkpoint_manifest.h>
#include <tutti/train/checkpoints/checkpoint_parts.h>

#include <cstddef>
#include <string>

namespace tutti {

struct CheckpointContents {
  CheckpointProgress progress;
  PartStates parts;
};

/// Suffix of a folder's name while it is written or removed: whatever has it is no checkpoint.
inline constexpr const char* kUnfinishedSuffix = ".tmp";

/// Writes a checkpoint as the folder `path`, which must not exist: manifest.json and up to `writers` safetensors files,
/// each written by a thread. All is made beside it, forced to the disk, and renamed at the end: who finds `path` finds
/// it whole. Throws DataError naming what could not be written; nothing is left behind then.
void write_checkpoint_folder(const std::string& path, const CheckpointContents&, std::size_t writers);

/// Reads all of it, onto the CPU. Throws DataError naming the file that is missing, damaged or not of this checkpoint.
CheckpointContents read_checkpoint_folder(const std::string& path);

/// Gives the folder a name that is no checkpoint's, then removes it.
void remove_checkpoint_folder(const std::string& path);

}  // namespace tutti
