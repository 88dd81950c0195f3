// SPDX-License-Identifier: Apache-2.0
// NCCL between processes that share one GPU: each has a host id of its own, so that NCCL connects them by sockets.
#include <tutti/tests/distributed/engines/nccl/rank_processes.h>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace tutti::testing;

namespace {

/// Deleted when this goes.
struct Folder {
  std::filesystem::path path;
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "tutti-ranks-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
};

/// Adds a world's numbers to the file that TUTTI_RANKS_REPORT names, if it does.
void report(nlohmann::json entry) {
  const char* path = std::getenv("TUTTI_RANKS_REPORT");
  if (path == nullptr) return;
  auto all = nlohmann::json::array();
  if (std::ifstream file(path); file) all = nlohmann::json::parse(file, nullptr, false);
  if (!all.is_array()) all = nlohmann::json::array();
  all.push_back(std::move(entry));
  std::ofstream(path) << all.dump(1) << '\n';
}

void run_world(int world) {
  const Folder folder;
  const auto program =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "distributed/engines/nccl/nccl_rank";
  std::vector<ProcessCommand> commands;
  for (int rank = 0; rank < world; ++rank)
    commands.push_back({{program.string(), std::to_string(rank), std::to_string(world), folder.path.string()},
                        {{"NCCL_HOSTID", fmt::format("tutti-rank-{}", rank)},
                         {"NCCL_P2P_DISABLE", "1"},
                         {"NCCL_SHM_DISABLE", "1"},
                         {"NCCL_IB_DISABLE", "1"},
                         {"NCCL_NET", "Socket"},
                         {"NCCL_SOCKET_IFNAME", "lo"},
                         {"TUTTI_CUDA_DEVICES_PER_GPU", "1"}}});
  const auto endings = run_processes(commands, std::chrono::seconds(40));
  nlohmann::json entry{{"world", world}, {"result", "passed"}};
  if (std::ifstream file(folder.path / "rank-0.json"); file) entry.update(nlohmann::json::parse(file));
  for (int rank = 0; rank < world; ++rank) {
    const std::string& ending = endings[static_cast<std::size_t>(rank)];
    if (!ending.empty()) entry["result"] = "failed";
    CHECK_MESSAGE(ending.empty(), "rank ", rank, " of ", world, " ", ending);
  }
  report(std::move(entry));
}

}  // namespace

TEST_CASE("ranks: two processes on one GPU, their collectives and a training") { run_world(2); }
TEST_CASE("ranks: four processes on one GPU, their collectives and a training") { run_world(4); }
