// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/connect_gpus.h>

#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#ifdef TUTTI_HAVE_NCCL
#include <tutti/distributed/engines/nccl/nccl_communicator.h>
#include <tutti/distributed/engines/nccl/nccl_group.h>
#endif

#include <cstring>
#include <string_view>
#include <utility>

namespace tutti {

#ifdef TUTTI_HAVE_NCCL

static_assert(sizeof(ncclUniqueId) == sizeof(GpuMeeting));

GpuMeeting make_gpu_meeting(Device device) {
  (void)backend_for(device);
  const ncclUniqueId id = make_nccl_id(device);
  GpuMeeting meeting;
  std::memcpy(meeting.data(), &id, sizeof id);
  return meeting;
}

std::unique_ptr<Communicator> connect_gpus(std::vector<Device> devices, const GpuPlace& place,
                                           std::shared_ptr<LaunchOrder> order) {
  for (const Device device : devices) (void)backend_for(device);
  NcclMembership membership{.id = {}, .world = place.world, .first_rank = place.first_rank};
  std::memcpy(&membership.id, place.meeting.data(), sizeof membership.id);
  auto engine = std::make_unique<NcclCommunicator>(std::move(devices), std::move(membership), place.deadline,
                                                   place.patience, std::move(order));
  try {
    engine->connect_now(place.look_around);
  } catch (const SyncError& error) {
    // Comes with ncclInvalidUsage alone (check_nccl).
    if (std::string_view(error.what()).find("Duplicate GPU") == std::string_view::npos) throw;
    raise<SyncError>("{}; each process of a host needs a GPU of its own, as cuda(processes.local_rank())",
                     error.what());
  }
  return engine;
}

#else

namespace {

[[noreturn]] void refuse(Device device) {
  raise<SyncError>("[sync] this library was built without NCCL, which connects {} with other processes' devices",
                   to_string(device));
}

}  // namespace

GpuMeeting make_gpu_meeting(Device device) { refuse(device); }

std::unique_ptr<Communicator> connect_gpus(std::vector<Device> devices, const GpuPlace&, std::shared_ptr<LaunchOrder>) {
  refuse(devices.front());
}

#endif

}  // namespace tutti
