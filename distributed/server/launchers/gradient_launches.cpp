// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/server/launchers/gradient_launches.h>

#include <tutti/distributed/server/launchers/arena_launcher.h>
#include <tutti/distributed/server/launchers/shard_launcher.h>

namespace tutti {

GradientLaunches::GradientLaunches(const GroupMembers& members, const std::vector<SyncParameter>& parameters,
                                   const SyncOptions& options, Communicator& communicator, const Followers& followers)
    : options_(options),
      submissions_(members.size()),
      context_{members, parameters, communicator, submissions_, followers},
      sparse_(context_) {}

void GradientLaunches::prepare() {
  const bool scatters = options_.sharding == Sharding::gradients;
  submissions_.make_room(context_.parameters.size(), scatters);
  if (options_.sharding != Sharding::none) shards_.emplace(context_.parameters, context_.members.group().size());
  if (scatters)
    dense_ = std::make_unique<ShardLauncher>(context_, *shards_);
  else
    dense_ = std::make_unique<ArenaLauncher>(context_, options_);
}

std::optional<RoundResult::Reduced> GradientLaunches::launch(const Launch& launch) {
  return launch.places.front().sparse ? sparse_.launch(launch) : dense_->launch(launch);
}

}  // namespace tutti
