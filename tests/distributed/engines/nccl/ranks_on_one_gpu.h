// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/tests/distributed/engines/nccl/rank_processes.h>

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <vector>

namespace tutti::testing {

/// The processes of a world that share one GPU: `program`, in this folder of the build, gets rank, world and `last`.
/// Each has a host id of its own, so that NCCL connects them by sockets.
inline std::vector<ProcessCommand> ranks_on_one_gpu(const std::string& program, int world, const std::string& last) {
  const auto path =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "distributed/engines/nccl" / program;
  std::vector<ProcessCommand> commands;
  for (int rank = 0; rank < world; ++rank)
    commands.push_back({{path.string(), std::to_string(rank), std::to_string(world), last},
                        {{"NCCL_HOSTID", fmt::format("tutti-rank-{}", rank)},
                         {"NCCL_P2P_DISABLE", "1"},
                         {"NCCL_SHM_DISABLE", "1"},
                         {"NCCL_IB_DISABLE", "1"},
                         {"NCCL_NET", "Socket"},
                         {"NCCL_SOCKET_IFNAME", "lo"},
                         {"TUTTI_CUDA_DEVICES_PER_GPU", "1"}}});
  return commands;
}

}  // namespace tutti::testing
