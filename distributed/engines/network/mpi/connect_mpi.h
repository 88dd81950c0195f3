// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/engines/network/lines/line_meeting.h>
#include <tutti/distributed/engines/network/mpi/mpi_runtime.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace tutti {

/// A meeting of processes that mpirun has started.
struct MpiMeeting {
  std::array<std::uint8_t, 16> run{};  ///< tells this run from others, the same for all
  std::size_t processes = 1;           ///< ranks 0 and up: all that mpirun has started
  int rank = 0;                        ///< this one's, whatever MPI's is
  std::size_t piece_bytes = 0;         ///< size of what goes at once; the same for all
};

/// Size of what goes at once over MPI: large, as each piece costs both sides several messages; smaller where the memory
/// for pieces of many processes would grow.
constexpr std::size_t mpi_piece_bytes(std::size_t processes) {
  return std::size_t{processes <= 16 ? 1024U : 256U} << 10U;
}

/// Connects this process with all others of the meeting over MPI, which it initialises if nobody has. Returns their
/// lines in the order of the ranks. Nothing is encrypted: who is on the way is the fabric's affair. Only without
/// trouble (MpiRuntime). Throws SyncError where mpirun has started another number of processes, for processes of
/// another run or with other options, for what MPI says, and when others have not come within `patience`; and what
/// `look_around` throws, which is called now and then if it is there.
GroupLines connect_mpi(MpiRuntime&, const MpiMeeting&, std::chrono::milliseconds patience,
                       const std::function<void()>& look_around = {});

}  // namespace tutti
