// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/process_group.h>

#include <tutti/backend/error.h>
#include <tutti/distributed/communicator.h>
#include <tutti/distributed/engines/network/network_communicator.h>
#include <tutti/distributed/engines/shared_memory/shared_memory_communicator.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/distributed/member/sync_group.h>
#include <tutti/distributed/process_group/control_link.h>
#include <tutti/distributed/process_group/first_words.h>
#include <tutti/distributed/process_group/memory_link.h>

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

namespace tutti {

namespace {

std::string hexadecimal(auto bytes) {
  std::string text;
  for (const auto byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

// "10.0.0.1:4000" and "[fe80::1]:4000" without their ports.
std::string host_of(const std::string& address) {
  std::string host = address.substr(0, address.rfind(':'));
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return host;
}

// Twice a process's share of the memory: every process has addresses for those of all, at most 1 TiB, and a quarter of
// what its limits (ulimit -v, -f) allow.
std::size_t addresses_for_gradients(std::size_t processes) {
  const auto pages = static_cast<std::size_t>(std::max(1L, sysconf(_SC_PHYS_PAGES)));
  const auto page = static_cast<std::size_t>(std::max(1L, sysconf(_SC_PAGESIZE)));
  std::size_t most = std::min(pages * page * 2, std::size_t{1} << 40U) / processes;
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    most = std::min<std::size_t>(most, limit.rlim_cur / 4 / processes);
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    most = std::min<std::size_t>(most, limit.rlim_cur / 4);
  return most / page * page;
}

constexpr std::uint64_t kEpoch = 1;
constexpr std::chrono::milliseconds kVerdict{1'000};  // time for rank 0 to say why a connection has ended

}  // namespace

struct ProcessGroup::State {
  State(const LaunchPlace& its_place, const ProcessOptions& its_options) : place(its_place), options(its_options) {
    if (place.alone()) return;
    channel = std::make_shared<ControlChannel>(
        place, secret, ControlOptions{.rendezvous = options.rendezvous, .silence = options.silence});
  }

  std::string address_of(int rank) const {
    return host_of(channel->members().at(static_cast<std::size_t>(rank)).address);
  }
  /// Name under which the processes exchange their memory: known to them alone, and to no other run.
  std::string memory_name(const std::string& run) const {
    return "tutti-" + hexadecimal(secret.token("shared memory", run, 0));
  }
  NetworkMeeting meeting(const std::string& run, const std::vector<FirstWords>& words) const {
    NetworkMeeting meeting;
    meeting.key = secret.token("network engine", run, 0);
    meeting.epoch = kEpoch;
    meeting.rank = place.rank;
    for (int rank = 0; rank < place.size; ++rank)
      meeting.places.push_back({rank, address_of(rank), words[static_cast<std::size_t>(rank)].port});
    return meeting;
  }

  LaunchPlace place;
  ProcessOptions options;
  JobSecret secret;
  std::shared_ptr<ControlChannel> channel;  // null: alone; the group's link has it, too
  bool connected = false;
  const char* engine = "none";
};

ProcessGroup ProcessGroup::from_environment(const ProcessOptions& options) { return {launch_place(), options}; }

ProcessGroup::ProcessGroup(const LaunchPlace& place, const ProcessOptions& options)
    : state_(std::make_unique<State>(place, options)) {}
ProcessGroup::ProcessGroup(ProcessGroup&&) noexcept = default;
ProcessGroup& ProcessGroup::operator=(ProcessGroup&&) noexcept = default;
ProcessGroup::~ProcessGroup() = default;

int ProcessGroup::rank() const noexcept { return state_->place.rank; }
int ProcessGroup::size() const noexcept { return state_->place.size; }
const char* ProcessGroup::engine() const noexcept { return state_->engine; }

ProcessGroup::Connection ProcessGroup::connect(std::span<const Device> devices, std::chrono::milliseconds patience) {
  if (std::exchange(state_->connected, true))
    raise<SyncError>("[sync] rank {}'s ProcessGroup serves a GradientSync already, and can serve one only", rank());
  for (const Device device : devices)
    if (device.kind != DeviceKind::cpu)
      raise<SyncError>("[sync] rank {} has {}: several processes can reduce on CPU devices only yet", rank(),
                       to_string(device));
  const DataDoor door(state_->address_of(rank()));
  const auto own = FirstWords::of_this_process(devices, door.port(), state_->options.engine == ProcessEngine::network,
                                               addresses_for_gradients(static_cast<std::size_t>(size())));
  auto link = std::make_unique<ControlLink>(state_->channel, own.bytes(),
                                            std::chrono::steady_clock::now() + state_->options.rendezvous);
  const std::vector<FirstWords> words = FirstWords::read(link->first_words());
  std::vector<Member> members;
  for (std::size_t rank = 0; rank < words.size(); ++rank)
    for (const std::uint16_t index : words[rank].devices) members.emplace_back(static_cast<int>(rank), cpu(index));
  link->set_members(members);
  const std::string run = state_->place.job + hexadecimal(words[0].nonce);
  const auto meeting = state_->options.rendezvous;
  const auto look_around = [&link] { link->require_all(); };  // who has died since comes no more
  if (FirstWords::share_memory(words)) {
    auto engine = SharedMemoryCommunicator::connect(state_->memory_name(run), kEpoch, members, rank(),
                                                    {.array_bytes = FirstWords::addresses(words),
                                                     .patience = patience,
                                                     .meeting = meeting,
                                                     .look_around = look_around});
    state_->engine = "shared memory";
    auto over_memory = std::make_unique<MemoryLink>(std::move(link), engine->words());
    return {std::move(engine), std::move(over_memory)};
  }
  auto engine = std::make_unique<NetworkCommunicator>(state_->meeting(run, words), door, members,
                                                      NetworkOptions{.encrypt = state_->options.encrypt,
                                                                     .patience = patience,
                                                                     .grace = kVerdict,
                                                                     .meeting = meeting,
                                                                     .look_around = look_around});
  state_->engine = "network";
  return {std::move(engine), std::move(link)};
}

// Here, so that programs of one process link nothing that connects processes.
GradientSync::GradientSync(ProcessGroup& processes, std::vector<Device> devices, SyncOptions options) {
  SyncGroup::check(devices, options, !processes.alone());  // before others count on this process
  ProcessGroup::Connection connection;
  // Whoever waits for a step hears from the engine who keeps a reduction waiting, so it speaks before the step's
  // deadline; but behind a collective's, which others' reductions may wait for.
  if (!processes.alone()) connection = processes.connect(devices, options.fail_after + options.fail_after / 5);
  group_ = SyncGroup::make(std::move(devices), options, std::move(connection.engine), std::move(connection.link));
}

}  // namespace tutti
