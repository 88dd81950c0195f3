// SPDX-License-Identifier: Apache-2.0
// nccl_rank RANK WORLD FOLDER: one process of a group, started by nccl_ranks_test. Processes find each other through
// FOLDER; what this one measured goes to FOLDER/rank-RANK.json.
#include <tutti/tests/distributed/engines/nccl/nccl_rank.h>

#include <tutti/backend/registry.h>
#include <tutti/distributed/engines/nccl/nccl_communicator.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

namespace tutti::testing {

namespace {

/// Rank 0 makes the group's id; a file of that name is whole. Each of a process's groups has a number.
ncclUniqueId exchange_id(const Rank& rank, const std::filesystem::path& folder, int group) {
  const std::filesystem::path path = folder / fmt::format("id-{}", group);
  ncclUniqueId id{};
  if (rank.number == 0) {
    id = make_nccl_id(cuda(0));
    const std::filesystem::path partial = folder / fmt::format("id-{}.partial", group);
    std::ofstream(partial, std::ios::binary).write(id.internal, sizeof id.internal);
    std::filesystem::rename(partial, path);
    return id;
  }
  const auto until = std::chrono::steady_clock::now() + Rank::kDeadline;
  while (!std::filesystem::exists(path)) {
    if (std::chrono::steady_clock::now() > until)
      throw RankFailure(fmt::format("rank 0 has not made {} within {} s", path.string(), Rank::kDeadline.count()));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  std::ifstream(path, std::ios::binary).read(id.internal, sizeof id.internal);
  return id;
}

void run(Rank rank, const std::filesystem::path& folder) {
  rank.membership = {exchange_id(rank, folder, 1), rank.world, rank.number};
  {
    const auto engine = rank.connect();
    check_collectives(rank, *engine);
  }
  rank.membership.id = exchange_id(rank, folder, 2);
  RankTraining result = train_ranks(rank);
  rank.membership.id = exchange_id(rank, folder, 3);
  measure_steps(rank, result);
  const nlohmann::json document{{"difference", result.difference},
                                {"step_seconds", result.step_seconds},
                                {"exposed_seconds", result.exposed_seconds}};
  std::ofstream(folder / fmt::format("rank-{}.json", rank.number)) << document << '\n';
  if (!(result.difference <= 1e-6))
    throw RankFailure(fmt::format("the parameters differ from one device's by {:.3g}", result.difference));
}

}  // namespace

std::unique_ptr<NcclCommunicator> Rank::connect() const {
  return std::make_unique<NcclCommunicator>(std::vector<Device>{cuda(0)}, membership, kDeadline);
}

}  // namespace tutti::testing

int main(int argc, char** argv) {
  using namespace tutti::testing;
  if (argc != 4) {
    fmt::print(stderr, "usage: nccl_rank RANK WORLD FOLDER\n");
    return 2;
  }
  const Rank rank{std::atoi(argv[1]), std::atoi(argv[2]), {}};
  try {
    run(rank, argv[3]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "rank {} of {}: {}\n", rank.number, rank.world, error.what());
    return 1;
  }
  return 0;
}
