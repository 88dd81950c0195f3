// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/train/checkpoints/checkpoint_folder.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace tutti {

class GradientSync;

// A checkpoint goes from the process that has read it to the others as a text, which says what its arrays are, and then
// as their bytes, which arrive where they are to lie: nobody holds a second copy.

/// All of a checkpoint but its arrays' bytes, as text.
std::string head_of(const ReadCheckpoint&);
/// The checkpoint of such a text, none of the reader's own. Its arrays, on the CPU, have undefined contents.
ReadCheckpoint checkpoint_of_head(const std::string& head);
/// Memory of a checkpoint's arrays, which are on the CPU, in the order of `head_of`.
std::vector<std::span<std::byte>> bytes_of_arrays(const ReadCheckpoint&);

/// Gives all processes the bytes that these spans show in the first one, as if one followed the other: the others'
/// spans, as many bytes in all, receive them. Travels in pieces, each a collective with the group's deadline, of which
/// the first process sends each byte about twice, however many others there are. Called as gather_from_processes is.
/// Throws the group's SyncError.
void send_from_first(GradientSync&, std::span<const std::span<std::byte>>,
                     std::size_t piece_bytes = std::size_t{8} << 20U);

}  // namespace tutti
