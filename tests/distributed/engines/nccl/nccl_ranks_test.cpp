// SPDX-License-Identifier: Apache-2.0
// NCCL between processes that share one GPU: each has a host id of its own, so that NCCL connects them by sockets.
#include <tutti/tests/distributed/engines/nccl/rank_processes.h>
#include <tutti/tests/distributed/engines/nccl/ranks_on_one_gpu.h>

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
  const auto endings =
      run_processes(ranks_on_one_gpu("nccl_rank", world, folder.path.string()), std::chrono::seconds(40));
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
