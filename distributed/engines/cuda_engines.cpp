// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/cuda_engines.h>

#include <tutti/backend/cuda/runtime/gpu_mapping.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/engines/peer/peer_communicator.h>
#ifdef TUTTI_HAVE_NCCL
#include <tutti/distributed/engines/nccl/nccl_communicator.h>
#include <tutti/distributed/engines/nccl/nccl_group.h>
#include <tutti/distributed/engines/nccl/nccl_version.h>
#endif

#include <cstring>
#include <string_view>
#include <utility>

namespace tutti {

namespace {

class CudaEngines final : public GpuEngines {
 public:
  std::unique_ptr<Communicator> connect(std::vector<Device>, std::chrono::milliseconds patience) const override;
  GpuMeeting make_meeting(Device) const override;
  std::unique_ptr<Communicator> connect_processes(std::vector<Device>, const GpuPlace&,
                                                  std::shared_ptr<LaunchOrder>) const override;
  ThirdParty nccl() const override;
};

// NCCL's is the faster one between GPUs, and takes one device of each.
std::unique_ptr<Communicator> CudaEngines::connect(std::vector<Device> devices,
                                                   [[maybe_unused]] std::chrono::milliseconds patience) const {
  (void)backend_for(devices.front());  // says how many devices a GPU has
#ifdef TUTTI_HAVE_NCCL
  const std::size_t gpus = cuda_runtime::first_of_each_gpu(devices).size();
  if (gpus > 1 && gpus == devices.size()) {
    constexpr std::chrono::seconds kToConnect(60);
    return std::make_unique<NcclCommunicator>(std::move(devices), kToConnect, patience);
  }
#endif
  return std::make_unique<PeerCommunicator>(std::move(devices));
}

#ifdef TUTTI_HAVE_NCCL

static_assert(sizeof(ncclUniqueId) == sizeof(GpuMeeting));

GpuMeeting CudaEngines::make_meeting(Device device) const {
  (void)backend_for(device);
  const ncclUniqueId id = make_nccl_id(device);
  GpuMeeting meeting;
  std::memcpy(meeting.data(), &id, sizeof id);
  return meeting;
}

std::unique_ptr<Communicator> CudaEngines::connect_processes(std::vector<Device> devices, const GpuPlace& place,
                                                             std::shared_ptr<LaunchOrder> order) const {
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

ThirdParty CudaEngines::nccl() const try {
  const NcclVersion version(cuda());
  return {"NCCL", version.text(), version.lacks()};
} catch (const Error& error) {
  return {"NCCL", "", error.what()};
}

#else

[[noreturn]] void refuse(Device device) {
  raise<SyncError>("[sync] this library was built without NCCL, which connects {} with other processes' devices",
                   to_string(device));
}

GpuMeeting CudaEngines::make_meeting(Device device) const { refuse(device); }

std::unique_ptr<Communicator> CudaEngines::connect_processes(std::vector<Device> devices, const GpuPlace&,
                                                             std::shared_ptr<LaunchOrder>) const {
  refuse(devices.front());
}

ThirdParty CudaEngines::nccl() const { return {"NCCL", "", "this build has none (Meson option nccl)"}; }

#endif

}  // namespace

const GpuEngines& cuda_engines() noexcept {
  static const CudaEngines engines;
  return engines;
}

}  // namespace tutti
