// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/process_group/job_processes.h>

#include <tutti/backend/raise.h>
#include <tutti/distributed/communicator.h>
#include <tutti/distributed/engines/gpu_engines.h>
#include <tutti/distributed/engines/network/mpi/connect_mpi.h>
#include <tutti/distributed/engines/network/mpi/mpi_runtime.h>
#include <tutti/distributed/engines/network/network_communicator.h>
#include <tutti/distributed/engines/shared_memory/shared_memory_communicator.h>
#include <tutti/distributed/process_group/control_link.h>
#include <tutti/distributed/process_group/launch_link.h>
#include <tutti/distributed/process_group/memory_link.h>

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <optional>
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
constexpr std::chrono::milliseconds kRefusal{2'000};  // time for all to hear why none goes on
constexpr std::chrono::milliseconds kVerdict{1'000};  // time for rank 0 to say why a connection has ended

}  // namespace

/// What the processes know of each other when all have spoken.
struct JobProcesses::Meeting {
  std::unique_ptr<ControlLink> link;
  std::vector<FirstWords> words;  // by rank
  std::vector<Member> members;
};

JobProcesses::JobProcesses(const LaunchPlace& place, const ProcessOptions& options) : place_(place), options_(options) {
  if (place_.alone() && options_.engine == ProcessEngine::mpi && !started_by_mpirun())
    raise<SyncError>("[sync] ProcessEngine::mpi: this process cannot use MPI: {}", text_of(MpiTrouble::no_mpirun));
  if (place_.alone()) return;
  channel_ = std::make_shared<ControlChannel>(
      place_, secret_, ControlOptions{.rendezvous = options_.rendezvous, .silence = options_.silence});
}

std::string JobProcesses::address_of(int rank) const {
  return host_of(channel_->members().at(static_cast<std::size_t>(rank)).address);
}

// Known to the processes alone, and to no other run.
std::string JobProcesses::memory_name(const std::string& run) const {
  return "tutti-" + hexadecimal(secret_.token("shared memory", run, 0));
}

NetworkMeeting JobProcesses::network_meeting(const std::string& run, const std::vector<FirstWords>& words) const {
  NetworkMeeting meeting;
  meeting.key = secret_.token("network engine", run, 0);
  meeting.epoch = kEpoch;
  meeting.rank = place_.rank;
  for (int rank = 0; rank < place_.size; ++rank)
    meeting.places.push_back({rank, address_of(rank), words[static_cast<std::size_t>(rank)].port});
  return meeting;
}

void JobProcesses::check(std::span<const Device> devices) const {
  if (devices.empty()) raise<SyncError>("[sync] a group needs at least one device");
  const Device first = devices.front();
  for (const Device device : devices) {
    if (device.kind != DeviceKind::cpu && device.kind != DeviceKind::cuda)
      raise<SyncError>("[sync] rank {} has {}: several processes can reduce on CPU and CUDA devices only", place_.rank,
                       to_string(device));
    if (device.kind != first.kind)
      raise<SyncError>("[sync] rank {} has {} and {}: a group has devices of one kind", place_.rank, to_string(first),
                       to_string(device));
  }
  if (first.kind == DeviceKind::cuda && options_.engine != ProcessEngine::automatic)
    raise<SyncError>("[sync] ProcessEngine::{} connects CPU devices, not {}",
                     options_.engine == ProcessEngine::mpi ? "mpi" : "network", to_string(first));
}

JobProcesses::Meeting JobProcesses::meet(const FirstWords& own) const {
  Meeting meeting;
  meeting.link =
      std::make_unique<ControlLink>(channel_, own.bytes(), std::chrono::steady_clock::now() + options_.rendezvous);
  meeting.words = FirstWords::read(meeting.link->first_words());
  FirstWords::require_one_kind(meeting.words);
  for (std::size_t rank = 0; rank < meeting.words.size(); ++rank)
    for (const std::uint16_t index : meeting.words[rank].devices)
      meeting.members.emplace_back(static_cast<int>(rank), Device{own.kind, index});
  meeting.link->set_members(meeting.members);
  return meeting;
}

ProcessGroup::Connection JobProcesses::connect_cpus(std::span<const Device> devices,
                                                    std::chrono::milliseconds patience) {
  const bool asks_for_mpi = options_.engine == ProcessEngine::mpi;
  std::optional<DataDoor> door;
  if (!asks_for_mpi) door.emplace(address_of(place_.rank));
  FirstWords own = FirstWords::of_this_process(devices);
  own.port = static_cast<std::uint16_t>(door ? door->port() : 0);
  own.engine = options_.engine;
  own.mpi = asks_for_mpi ? MpiRuntime::instance().trouble() : MpiTrouble::none;
  own.array_addresses = addresses_for_gradients(static_cast<std::size_t>(place_.size));
  auto [link, words, members] = meet(own);
  const std::string run = place_.job + hexadecimal(words[0].nonce);
  const auto look_around = [&link = *link] { link.require_all(); };  // who has died since comes no more
  bool over_mpi = false;
  try {
    over_mpi = FirstWords::use_mpi(words);
  } catch (const SyncError&) {
    if (place_.rank == 0) link->await_ends(kRefusal);
    throw;
  }
  if (!over_mpi && FirstWords::share_memory(words)) {
    auto shared = SharedMemoryCommunicator::connect(memory_name(run), kEpoch, members, place_.rank,
                                                    {.array_bytes = FirstWords::addresses(words),
                                                     .patience = patience,
                                                     .meeting = options_.rendezvous,
                                                     .spins = FirstWords::cores_are_free(words, place_.rank),
                                                     .look_around = look_around});
    engine_ = "shared memory";
    auto over_memory = std::make_unique<MemoryLink>(std::move(link), shared->words());
    return {std::move(shared), std::move(over_memory)};
  }
  const auto processes = static_cast<std::size_t>(place_.size);
  NetworkOptions network{.encrypt = options_.encrypt,
                         .patience = patience,
                         .grace = kVerdict,
                         .meeting = options_.rendezvous,
                         .look_around = look_around};
  if (!over_mpi) {
    auto over_sockets = std::make_unique<NetworkCommunicator>(network_meeting(run, words), *door, members, network);
    engine_ = "network";
    return {std::move(over_sockets), std::move(link)};
  }
  network.piece_bytes = mpi_piece_bytes(processes);
  link->set_on_failure([] { MpiRuntime::instance().set_failed(); });
  auto lines = connect_mpi(MpiRuntime::instance(), {words[0].nonce, processes, place_.rank, network.piece_bytes},
                           options_.rendezvous, look_around);
  std::vector<int> ranks(processes);
  std::iota(ranks.begin(), ranks.end(), 0);
  auto mpi =
      std::make_unique<NetworkCommunicator>(std::move(lines), std::move(ranks), place_.rank, kEpoch, members, network);
  engine_ = "MPI";
  return {std::move(mpi), std::move(link)};
}

ProcessGroup::Connection JobProcesses::connect_gpus(std::span<const Device> devices,
                                                    std::chrono::milliseconds patience) {
  FirstWords own = FirstWords::of_this_process(devices);
  if (place_.rank == 0) own.gpus = gpu_engines().make_meeting(devices.front());
  auto [link, words, members] = meet(own);
  GpuPlace gpus{.meeting = words[0].gpus,
                .world = static_cast<int>(members.size()),
                .deadline = options_.rendezvous,
                .patience = patience,
                .look_around = [&link = *link] { link.require_all(); }};
  for (int rank = 0; rank < place_.rank; ++rank)
    gpus.first_rank += static_cast<int>(words[static_cast<std::size_t>(rank)].devices.size());
  auto order = std::make_shared<LaunchOrder>();
  auto nccl = gpu_engines().connect_processes({devices.begin(), devices.end()}, gpus, order);
  engine_ = "NCCL";
  return {std::move(nccl), std::make_unique<LaunchLink>(std::move(link), order)};
}

ProcessGroup::Connection JobProcesses::connect(std::span<const Device> devices, std::chrono::milliseconds patience) {
  check(devices);
  return devices.front().kind == DeviceKind::cuda ? connect_gpus(devices, patience) : connect_cpus(devices, patience);
}

}  // namespace tutti
