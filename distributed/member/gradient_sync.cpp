// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/gradient_sync.h>

#include <tutti/backend/raise.h>
#include <tutti/distributed/member/device_use.h>
#include <tutti/distributed/member/sync_group.h>
#include <tutti/distributed/threads/thread_number.h>
#include <tutti/nn/dropout.h>

#include <deque>
#include <exception>
#include <utility>

namespace tutti {

GradientSync::GradientSync(std::vector<Device> devices, SyncOptions options)
    : GradientSync(std::move(devices), std::move(options), nullptr) {}

GradientSync::GradientSync(std::vector<Device> devices, SyncOptions options, std::unique_ptr<Communicator> engine)
    : GradientSync(std::move(devices), std::move(options), std::move(engine), nullptr) {}

GradientSync::GradientSync(std::vector<Device> devices, SyncOptions options, std::unique_ptr<Communicator> engine,
                           std::unique_ptr<ProcessLink> link)
    : group_(SyncGroup::make(std::move(devices), options, std::move(engine), std::move(link))) {}

GradientSync::~GradientSync() {
  DistributedSyncServer& server = group_->server();
  if (!server.here()) return;
  const bool unwound = std::uncaught_exceptions() > exceptions_;
  if (!server.in_callback()) server.await_others(unwound);
  server.close(unwound);
  if (!server.in_callback()) server.stop_watching();  // `warn` may use this object until then
}
void GradientSync::close() { group_->server_here("sync.close").close(); }

std::shared_ptr<SyncMember> GradientSync::member(Device device) const { return group_->member(device); }

void GradientSync::attach(Device device, Module& replica) {
  const auto self = member(device);
  DeviceUse(*self, "attach")->attach(replica, self);
  const WorldShare all = world();
  if (all.processes == 1) return;
  for (const auto& [name, layer] : dropout_layers(replica)) layer->set_number(device, all.first + self->index());
}
void GradientSync::attach(Device device, Optimizer& optimizer) {
  const auto self = member(device);
  DeviceUse(*self, "attach")->attach(optimizer, self);
}
const std::vector<Device>& GradientSync::devices() const noexcept { return group_->devices(); }
WorldShare GradientSync::world() const noexcept {
  const GroupMembers& members = group_->server().members();
  return {.processes = members.world(), .devices = members.size() + members.outside(), .first = members.number(0)};
}
Step GradientSync::step(Device device, double weight) {
  const auto self = member(device);
  const DeviceUse use(*self, "sync.step");
  return {self, weight};
}
bool GradientSync::flush(Device device) { return DeviceUse(*member(device), "sync.flush")->flush(); }
void GradientSync::leave(Device device, Follow follow) {
  DeviceUse(*member(device), "sync.leave")->leave(follow == Follow::yes);
}
bool GradientSync::follow(Device device) { return DeviceUse(*member(device), "sync.follow")->follow(); }
void GradientSync::check_consistency(std::span<const Device> devices) {
  std::vector<std::shared_ptr<SyncWaiter>> waiters;
  {
    std::deque<DeviceUse> uses;  // a second check while this one waits is refused, and harms nobody
    for (const Device device : devices) uses.emplace_back(*member(device), "sync.check_consistency");
    for (const DeviceUse& use : uses) use->refuse_check();  // before any other asks
    for (const DeviceUse& use : uses) waiters.push_back(use->check_replica());
  }
  for (std::size_t i = 0; i < waiters.size(); ++i) {
    member(devices[i])->await(*waiters[i]);
    if (waiters[i]->error()) std::rethrow_exception(waiters[i]->error());
  }
}

void GradientSync::fail(Device device, std::exception_ptr error) {
  const auto self = member(device);
  group_->server_here("sync.fail");
  const std::uint64_t driver = self->thread().last_driver();
  if (driver == this_thread_number() && DeviceUse::try_with(*self, [&] { self->fail(error); })) return;
  // Another thread than the device's own only tells the group: the device hears of it at its next call. Before its
  // first step this may be its own thread, which may rejoin next: once the group knows.
  const auto told = self->report_failure(error);
  if (driver == 0 && self->server().here() && !DistributedSyncServer::in_any_callback()) told->wait();
}
void GradientSync::busy(Device device, std::string activity) {
  group_->server_here("sync.busy").set_busy(member(device)->index(), std::move(activity));
}

void GradientSync::rejoin(Device device, std::int64_t last_step_applied) {
  const Rejoining one[] = {{device, last_step_applied}};
  rejoin_all(one);
}

void GradientSync::rejoin_all(std::span<const Rejoining> all) {
  std::vector<std::pair<std::shared_ptr<SyncMember>, std::shared_ptr<SyncWaiter>>> asked;
  std::deque<DeviceUse> uses;
  for (const Rejoining& one : all) uses.emplace_back(*member(one.device), "sync.rejoin");
  for (const Rejoining& one : all) member(one.device)->refuse_rejoin();  // before any other has joined
  for (const Rejoining& one : all) {
    const auto self = member(one.device);
    asked.emplace_back(self, self->request_rejoin(one.last_step_applied));
  }
  std::exception_ptr first;
  for (const auto& [self, waiter] : asked) try {
      self->finish_rejoin(*waiter);
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  if (first) std::rethrow_exception(first);
}

DistributedSyncServer& GradientSync::server() noexcept { return group_->server(); }

// --- collectives on tensors

PendingTensor GradientSync::post(Device device, CollectiveCall call, const Tensor& tensor) {
  return Collectives::post(group_->collectives(), device, std::move(call), tensor);
}

PendingTensor GradientSync::all_reduce(Device device, const Tensor& tensor, CollectiveOperation operation,
                                       std::string purpose) {
  return post(device, {.kind = CollectiveKind::all_reduce, .operation = operation, .purpose = std::move(purpose)},
              tensor);
}
PendingTensor GradientSync::reduce_scatter(Device device, const Tensor& tensor, CollectiveOperation operation,
                                           std::vector<std::int64_t> parts, std::string purpose) {
  return post(device,
              {.kind = CollectiveKind::reduce_scatter,
               .operation = operation,
               .lengths = std::move(parts),
               .purpose = std::move(purpose)},
              tensor);
}
PendingTensor GradientSync::all_gather(Device device, const Tensor& tensor, std::string purpose) {
  return post(device, {.kind = CollectiveKind::all_gather, .purpose = std::move(purpose)}, tensor);
}
PendingTensor GradientSync::broadcast(Device device, const Tensor& tensor, Member root, std::string purpose) {
  return post(device, {.kind = CollectiveKind::broadcast, .root = root, .purpose = std::move(purpose)}, tensor);
}
PendingTensor GradientSync::all_to_all(Device device, const Tensor& tensor, std::vector<std::int64_t> parts,
                                       std::string purpose) {
  return post(device, {.kind = CollectiveKind::all_to_all, .lengths = std::move(parts), .purpose = std::move(purpose)},
              tensor);
}
void GradientSync::barrier(Device device, std::string purpose) {
  post(device, {.kind = CollectiveKind::barrier, .purpose = std::move(purpose)}, {}).resolve();
}

// --- what the group tells

std::uint64_t GradientSync::group_number() const { return group_->server_here("sync.group_number").group_number(); }
SyncReport GradientSync::report() const {
  DistributedSyncServer& server = group_->server_here("sync.report");
  server.communicator().crew().notice_finished();
  return server.report();
}
std::string GradientSync::recent_events() const {
  DistributedSyncServer& server = group_->server_here("sync.recent_events");
  server.communicator().crew().notice_finished();
  return server.recent_events();
}
void GradientSync::set_reductions_enabled(bool enabled) {
  if (server().has_others())
    raise<SyncError>(
        "[sync.set_reductions_enabled] a group of several processes cannot switch its reductions: others would wait "
        "for one that this process leaves out");
  group_->server_here("sync.set_reductions_enabled").communicator().set_enabled(enabled);
}

}  // namespace tutti
