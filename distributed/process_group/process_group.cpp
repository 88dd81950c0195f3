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
#include <random>
#include <utility>

namespace tutti {

namespace {

using Bytes = ProcessLink::Bytes;

constexpr std::size_t kNonce = 16;

/// What a process says of itself when its devices are connected: some random bytes, and the devices' numbers.
Bytes words_of(std::span<const Device> devices) {
  Bytes bytes(kNonce + devices.size() * sizeof(std::uint16_t));
  std::random_device random;
  for (std::size_t i = 0; i < kNonce; ++i) bytes[i] = static_cast<std::byte>(random());
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const std::uint16_t index = devices[i].index;
    std::memcpy(bytes.data() + kNonce + i * sizeof(index), &index, sizeof(index));
  }
  return bytes;
}

/// Throws SyncError naming the rank for words that are none.
std::vector<Member> members_in(const std::vector<Bytes>& words) {
  std::vector<Member> members;
  for (std::size_t rank = 0; rank < words.size(); ++rank) {
    if (words[rank].size() < kNonce + sizeof(std::uint16_t))
      raise<SyncError>("[sync] rank {} said {} bytes about its devices", rank, words[rank].size());
    for (std::size_t at = kNonce; at + sizeof(std::uint16_t) <= words[rank].size(); at += sizeof(std::uint16_t)) {
      std::uint16_t index = 0;
      std::memcpy(&index, words[rank].data() + at, sizeof(index));
      members.emplace_back(static_cast<int>(rank), cpu(index));
    }
  }
  return members;
}

std::string hexadecimal(auto bytes) {
  std::string text;
  for (const auto byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
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
  /// Where the processes exchange their memory: known to them alone, and to no other job, nor another run of this one.
  std::string meeting(const Bytes& words_of_rank_0) const {
    const std::string run = place.job + hexadecimal(std::span(words_of_rank_0).first(kNonce));
    return "tutti-" + hexadecimal(secret.token("shared memory", run, 0));
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
  link->set_members(members);
  auto engine = SharedMemoryCommunicator::connect(state_->meeting(link->first_words()[0]), 1, members, rank(),
                                                  {.patience = patience});
  return {std::move(engine), std::move(link)};
}

// Here, so that programs of one process link nothing that connects processes.
GradientSync::GradientSync(ProcessGroup& processes, std::vector<Device> devices, SyncOptions options) {
  SyncGroup::check(devices, options, !processes.alone());  // before others count on this process
  ProcessGroup::Connection connection;
  // The engine knows who keeps a reduction waiting: so it speaks first.
  if (!processes.alone()) connection = processes.connect(devices, options.fail_after - options.fail_after / 10);
  group_ = SyncGroup::make(std::move(devices), options, std::move(connection.engine), std::move(connection.link));
}

}  // namespace tutti
