// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/member/sync_group.h>

#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/engines/make_communicator.h>
#include <tutti/distributed/processes/launch_environment.h>
#include <tutti/distributed/server/checked_options.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

namespace tutti {

namespace {

void check_devices(std::span<const Device> devices) {
  if (devices.empty()) raise<SyncError>("[sync] a group needs at least one device");
  for (std::size_t i = 0; i < devices.size(); ++i) {
    backend_for(devices[i]).check(devices[i]);
    const auto before = devices.first(i);
    if (std::ranges::find(before, devices[i]) != before.end())
      raise<SyncError>("[sync] {} is listed twice", to_string(devices[i]));
  }
}

GroupMembers group_members(const std::vector<Device>& devices, const ProcessLink* link) {
  if (!link) return GroupMembers(members_of(devices));
  GroupMembers members(link->members(), link->rank());
  if (members.devices() != devices)
    raise<SyncError>("[sync] rank {} has other devices for its group, {}, than the link says, {}", link->rank(),
                     devices.size(), members.size());
  return members;
}

std::vector<std::unique_ptr<SyncMember>> make_members(DistributedSyncServer& server, DeviceThreads& threads) {
  std::vector<std::unique_ptr<SyncMember>> members;
  for (MemberIndex index = 0; index < server.members().size(); ++index)
    members.push_back(
        std::make_unique<SyncMember>(MemberPlace{server, threads, index, server.members()[index].device}));
  return members;
}

// A program that a launcher has started several times trains as often where it makes a group for each process alone,
// and nothing looks wrong. Once a process; not where it has a group with the others, too.
void tell_of_launcher(DistributedSyncServer& server) {
  static std::atomic<bool> known{false};
  if (server.has_others()) return known.store(true);
  LaunchPlace place;
  try {
    place = launch_place();
  } catch (const Error& error) {
    if (!known.exchange(true))
      server.tell(fmt::format("[sync] this GradientSync trains by itself, where a launcher may have started others: {}",
                              error.what()));
    return;
  }
  if (place.alone() || known.exchange(true)) return;
  server.tell(fmt::format(
      "[sync] {} says that a launcher has started {} processes, and this GradientSync trains by itself: give it the "
      "others, as in GradientSync(processes, devices) with ProcessGroup processes = ProcessGroup::from_environment()",
      place.variable, place.size));
}

}  // namespace

SyncGroup::SyncGroup(GroupMembers members, const SyncOptions& options, std::unique_ptr<Communicator> engine,
                     std::unique_ptr<ProcessLink> link)
    : server_(std::move(members), std::move(engine), options, std::move(link)),
      threads_(server_.members()),
      members_(make_members(server_, threads_)),
      collectives_(server_, members_) {
  server_.on_reformed(
      [this](const DistributedSyncServer::Reformation& reform) { return make_replicas_equal(members_, reform); });
  if (options.cancel.stop_possible()) cancel_.emplace(options.cancel, [this]() noexcept { cancel(); });
}

// Called by whoever asks the token to stop, who can be told of nothing; a child of the group's process ends nothing of
// its parent's.
void SyncGroup::cancel() noexcept {
  if (!server_.here()) return;
  try {
    server_.cancel();
  } catch (...) {  // no memory for a message: deadlines end the waits
  }
}

void SyncGroup::check(std::span<const Device> devices, const SyncOptions& options) {
  check_devices(devices);
  (void)checked_options(options);
}

std::shared_ptr<SyncGroup> SyncGroup::make(std::vector<Device> devices, const SyncOptions& options,
                                           std::unique_ptr<Communicator> engine, std::unique_ptr<ProcessLink> link) {
  if (link && !engine) raise<SyncError>("[sync] a group of several processes needs an engine that reduces over them");
  check_devices(devices);
  GroupMembers members = group_members(devices, link.get());
  const bool own_engine = engine && !link;  // it may have others of its own
  if (!engine) engine = make_communicator(devices, options.fail_after);
  std::shared_ptr<SyncGroup> group(new SyncGroup(std::move(members), options, std::move(engine), std::move(link)),
                                   &SyncGroup::end);
  if (!own_engine) tell_of_launcher(group->server());
  return group;
}

// In a child process nothing of it can end, nor can its thread, which runs `warn`, wait for itself: then it stays,
// where leak checkers see it.
void SyncGroup::end(SyncGroup* group) {
  static std::mutex mutex;  // of groups that end in their callbacks at the same time
  static std::vector<SyncGroup*>& left = *new std::vector<SyncGroup*>;
  if (group->server_.here() && !group->server_.in_callback()) {
    delete group;
  } else {
    const std::lock_guard lock(mutex);
    left.push_back(group);
  }
}

DistributedSyncServer& SyncGroup::server_here(std::string_view operation) {
  server_.refuse_elsewhere(operation);
  return server_;
}

std::shared_ptr<SyncMember> SyncGroup::member(Device device) {
  const auto found = std::ranges::find(devices(), device);
  if (found == devices().end()) raise<SyncError>("[sync] {} is not in this group", to_string(device));
  return {shared_from_this(), members_[static_cast<std::size_t>(found - devices().begin())].get()};
}

std::shared_ptr<Collectives> SyncGroup::collectives() { return {shared_from_this(), &collectives_}; }

}  // namespace tutti
