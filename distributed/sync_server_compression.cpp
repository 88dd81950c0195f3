// SPDX-License-Identifier: Apache-2.0
// In what form gradients travel: in 16 bits, compressed, or as they are.
#include <tutti/distributed/sync_server.h>

#include <tutti/backend/error.h>
#include <tutti/distributed/gradient_compression.h>
#include <tutti/distributed/gradient_sums.h>

#include <algorithm>
#include <utility>

namespace tutti {

void DistributedSyncServer::check_transport(std::span<const SyncParameter> parameters) {
  if (options_.wire != GradientWire::native)
    for (const SyncParameter& parameter : parameters)
      if (parameter.dtype != DType::f32)
        raise<SyncError>("[sync] parameter \"{}\" is {}: SyncOptions::wire {} is for f32, others need native",
                         parameter.name, to_string(parameter.dtype), to_string(options_.wire));
  if (options_.sharding != Sharding::none)
    for (const SyncParameter& parameter : parameters)
      if (parameter.sparse)
        raise<SyncError>(
            "[sync] parameter \"{}\" has sparse gradients, which cannot be sharded: mark it dense with "
            "set_sparse_grad(false) before it is attached",
            parameter.name);
  if (options_.compression) options_.compression->prepare(parameters, devices_);
}

std::shared_ptr<CollectiveTask> DistributedSyncServer::reduce(const Launch& launch, const std::vector<Array>& results,
                                                              AllReduceRequest request) {
  request.wire = options_.wire;
  if (options_.wire != GradientWire::native && options_.reduction == GradientReduction::weighted_mean)
    request.wire_scale =
        weighted_wire_scale(std::ranges::count(request.slices, true, &AllReduceSlice::contributes), launch.denominator);
  if (options_.compression && communicator_->enabled()) {
    CompressionRequest compressed{.places = launch.places,
                                  .members = {},
                                  .denominator = launch.denominator,
                                  .wire = request.wire,
                                  .wire_scale = request.wire_scale};
    for (MemberIndex member = 0; member < devices_.size(); ++member)
      compressed.members.push_back({results[member], launch.parts[member].contributes});
    std::vector<Device> helping;
    for (MemberIndex member = 0; member < devices_.size(); ++member)
      if (!launch.parts[member].absent) helping.push_back(devices_[member]);
    if (auto reduction = options_.compression->begin(compressed))
      return communicator_->compressed_all_reduce(std::move(reduction), std::move(request.ready), std::move(helping));
  }
  return communicator_->all_reduce(std::move(request));
}

}  // namespace tutti
