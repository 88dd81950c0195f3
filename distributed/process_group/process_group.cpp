// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/process_group.h>

#include <tutti/backend/raise.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/distributed/member/sync_group.h>
#include <tutti/distributed/process_group/process_connections.h>

#include <utility>
#include <vector>

namespace tutti {

struct ProcessGroup::State {
  LaunchPlace place;
  std::unique_ptr<ProcessConnections> others;  // null: alone
  bool connected = false;
};

ProcessGroup ProcessGroup::from_environment(const ProcessOptions& options) { return {launch_place(), options}; }

// Who asks for MPI hears whether there is any, alone too.
ProcessGroup::ProcessGroup(const LaunchPlace& place, const ProcessOptions& options)
    : state_(std::make_unique<State>(State{place, nullptr})) {
  if (!place.alone() || options.engine == ProcessEngine::mpi) state_->others = connect_processes(place, options);
}
ProcessGroup::ProcessGroup(ProcessGroup&&) noexcept = default;
ProcessGroup& ProcessGroup::operator=(ProcessGroup&&) noexcept = default;
ProcessGroup::~ProcessGroup() = default;

int ProcessGroup::rank() const noexcept { return state_->place.rank; }
int ProcessGroup::size() const noexcept { return state_->place.size; }
int ProcessGroup::local_rank() const noexcept { return state_->place.local_rank; }
const char* ProcessGroup::engine() const noexcept { return state_->others ? state_->others->engine() : "none"; }

ProcessGroup::Connection ProcessGroup::connect(std::span<const Device> devices, std::chrono::milliseconds patience) {
  if (alone()) raise<SyncError>("[sync] a process that is alone has no others to connect with");
  if (std::exchange(state_->connected, true))
    raise<SyncError>("[sync] rank {}'s ProcessGroup serves a GradientSync already, and can serve one only", rank());
  return state_->others->connect(devices, patience);
}

// Here, so that programs without a ProcessGroup are linked with nothing of it.
GradientSync::GradientSync(ProcessGroup& processes, std::vector<Device> devices, SyncOptions options) {
  SyncGroup::check(devices, options);  // before others count on this process
  ProcessGroup::Connection connection;
  // Whoever waits for a step hears from the engine who keeps a reduction waiting, so it speaks before the step's
  // deadline; but behind a collective's, which others' reductions may wait for.
  if (!processes.alone()) connection = processes.connect(devices, options.fail_after + options.fail_after / 5);
  group_ = SyncGroup::make(std::move(devices), options, std::move(connection.engine), std::move(connection.link));
}

}  // namespace tutti
