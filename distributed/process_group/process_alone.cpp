// SPDX-License-Identifier: Apache-2.0
// The group of a library that was built without what connects processes: of one process.
#include <tutti/distributed/process_group.h>

#include <tutti/backend/error.h>
#include <tutti/distributed/communicator.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/distributed/member/sync_group.h>
#include <tutti/distributed/processes/process_link.h>

#include <utility>
#include <vector>

namespace tutti {

struct ProcessGroup::State {};

ProcessGroup ProcessGroup::from_environment(const ProcessOptions& options) { return {launch_place(), options}; }

ProcessGroup::ProcessGroup(const LaunchPlace& place, const ProcessOptions& options) {
  if (options.engine == ProcessEngine::mpi)
    raise<SyncError>("[sync] ProcessEngine::mpi: this library was built without what connects processes (-Dprocesses)");
  if (!place.alone())
    raise<SyncError>(
        "[sync] {} started {} processes, but this library was built without libzmq and libsodium (-Dprocesses), which "
        "connect them",
        place.launcher, place.size);
}
ProcessGroup::ProcessGroup(ProcessGroup&&) noexcept = default;
ProcessGroup& ProcessGroup::operator=(ProcessGroup&&) noexcept = default;
ProcessGroup::~ProcessGroup() = default;

int ProcessGroup::rank() const noexcept { return 0; }
int ProcessGroup::size() const noexcept { return 1; }
int ProcessGroup::local_rank() const noexcept { return 0; }
const char* ProcessGroup::engine() const noexcept { return "none"; }

ProcessGroup::Connection ProcessGroup::connect(std::span<const Device>, std::chrono::milliseconds) {
  raise<SyncError>("[sync] a process that is alone has no others to connect with");
}

// Here, so that programs of one process link nothing that connects processes.
GradientSync::GradientSync(ProcessGroup& processes, std::vector<Device> devices, SyncOptions options) {
  ProcessGroup::Connection connection;
  if (!processes.alone()) connection = processes.connect(devices, options.fail_after);
  group_ = SyncGroup::make(std::move(devices), options, std::move(connection.engine), std::move(connection.link));
}

}  // namespace tutti
