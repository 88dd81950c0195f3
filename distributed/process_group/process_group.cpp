// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/process_group.h>

#include <tutti/backend/error.h>
#include <tutti/distributed/communicator.h>
#include <tutti/distributed/engines/shared_memory/shared_memory_communicator.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/distributed/member/sync_group.h>
#include <tutti/distributed/process_group/control_link.h>

#include <fmt/format.h>

#include <cstring>
#include <utility>

namespace tutti {

namespace {

/// What a process says of itself when its devices are connected: their numbers.
ProcessLink::Bytes words_of(std::span<const Device> devices) {
  ProcessLink::Bytes bytes(devices.size() * sizeof(std::uint16_t));
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const std::uint16_t index = devices[i].index;
    std::memcpy(bytes.data() + i * sizeof(index), &index, sizeof(index));
  }
  return bytes;
}

std::vector<Member> members_in(const std::vector<ProcessLink::Bytes>& words) {
  std::vector<Member> members;
  for (std::size_t rank = 0; rank < words.size(); ++rank)
    for (std::size_t at = 0; at + sizeof(std::uint16_t) <= words[rank].size(); at += sizeof(std::uint16_t)) {
      std::uint16_t index = 0;
      std::memcpy(&index, words[rank].data() + at, sizeof(index));
      members.emplace_back(static_cast<int>(rank), cpu(index));
    }
  return members;
}

}  // namespace

struct ProcessGroup::State {
  State(const LaunchPlace& its_place, const ProcessOptions& its_options) : place(its_place), options(its_options) {
    if (place.alone()) return;
    channel = std::make_shared<ControlChannel>(
        place, secret, ControlOptions{.rendezvous = options.rendezvous, .silence = options.silence});
  }

  void refuse_several_hosts() const {
    for (const ControlMember& member : channel->members())
      if (member.host != channel->members().front().host)
        raise<SyncError>("[sync] rank {} is on host {}, rank 0 on {}: processes of one host only can reduce yet",
                         member.rank, member.host, channel->members().front().host);
  }
  std::string meeting() const {
    std::string name = "tutti-";
    for (const std::uint8_t byte : secret.token("shared memory", place.job, 0)) name += fmt::format("{:02x}", byte);
    return name;
  }

  LaunchPlace place;
  ProcessOptions options;
  JobSecret secret;
  std::shared_ptr<ControlChannel> channel;  // null: alone; the group's link has it, too
  bool connected = false;
};

ProcessGroup ProcessGroup::from_environment(const ProcessOptions& options) { return {launch_place(), options}; }

ProcessGroup::ProcessGroup(const LaunchPlace& place, const ProcessOptions& options)
    : state_(std::make_unique<State>(place, options)) {}
ProcessGroup::ProcessGroup(ProcessGroup&&) noexcept = default;
ProcessGroup& ProcessGroup::operator=(ProcessGroup&&) noexcept = default;
ProcessGroup::~ProcessGroup() = default;

int ProcessGroup::rank() const noexcept { return state_->place.rank; }
int ProcessGroup::size() const noexcept { return state_->place.size; }

ProcessGroup::Connection ProcessGroup::connect(std::span<const Device> devices, std::chrono::milliseconds patience) {
  if (std::exchange(state_->connected, true))
    raise<SyncError>("[sync] rank {}'s ProcessGroup serves a GradientSync already, and can serve one only", rank());
  for (const Device device : devices)
    if (device.kind != DeviceKind::cpu)
      raise<SyncError>("[sync] rank {} has {}: several processes can reduce on CPU devices only yet", rank(),
                       to_string(device));
  state_->refuse_several_hosts();
  auto link = std::make_unique<ControlLink>(state_->channel, words_of(devices),
                                            std::chrono::steady_clock::now() + state_->options.rendezvous);
  const std::vector<Member> members = members_in(link->first_words());
  std::vector<std::uint32_t> counts(static_cast<std::size_t>(size()));
  for (const Member& member : members) ++counts[static_cast<std::size_t>(member.rank)];
  link->set_devices(std::move(counts));
  auto engine = SharedMemoryCommunicator::connect(state_->meeting(), 1, members, rank(), {.patience = patience});
  return {std::move(engine), std::move(link)};
}

// Here, so that programs of one process link nothing that connects processes.
GradientSync::GradientSync(ProcessGroup& processes, std::vector<Device> devices, SyncOptions options) {
  ProcessGroup::Connection connection;
  if (!processes.alone()) connection = processes.connect(devices, 2 * options.fail_after);  // who waits says so first
  group_ = SyncGroup::make(std::move(devices), options, std::move(connection.engine), std::move(connection.link));
}

}  // namespace tutti
