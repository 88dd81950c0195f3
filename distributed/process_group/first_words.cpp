// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/process_group/first_words.h>

#include <tutti/backend/cpu_threads.h>
#include <tutti/backend/raise.h>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <type_traits>

namespace tutti {

namespace {

/// What stands before the devices' indices.
struct Head {
  std::array<std::uint8_t, 16> nonce;
  FirstWords::Identity memory;
  std::uint64_t array_addresses;
  std::uint16_t port;
  std::uint8_t engine;
  std::uint8_t mpi;
  std::uint32_t kind;
  GpuMeeting gpus;
  Cores cores;
  std::uint32_t threads;
  std::uint32_t zero;
};
static_assert(std::is_trivially_copyable_v<Head> && sizeof(Head) == 200 + sizeof(Cores));

template <std::size_t size> std::array<std::uint8_t, size> random_bytes() {
  std::random_device random;
  std::array<std::uint8_t, size> bytes{};
  std::ranges::generate(bytes, [&] { return static_cast<std::uint8_t>(random()); });
  return bytes;
}

// The sockets over which memory is exchanged end at a network namespace, and let in one user alone, whose number is of
// a namespace, too. Where that cannot be told nobody has the same identity.
FirstWords::Identity memory_identity() {
  std::string boot;
  struct stat network {};
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat users {};
  if (boot.empty() || stat("/proc/self/ns/net", &network) != 0) return random_bytes<32>();
  if (stat("/proc/self/ns/user", &users) != 0 && errno != ENOENT) return random_bytes<32>();  // a kernel without them
  std::erase(boot, '-');
  FirstWords::Identity identity{};
  const std::uint64_t numbers[] = {network.st_ino ^ users.st_ino << 32U,
                                   network.st_dev ^ std::uint64_t{geteuid()} << 32U};
  for (std::size_t i = 0; i < 16 && 2 * i + 1 < boot.size(); ++i)
    identity[i] = static_cast<std::uint8_t>(std::stoul(boot.substr(2 * i, 2), nullptr, 16));
  std::memcpy(identity.data() + 16, numbers, sizeof numbers);
  return identity;
}

}  // namespace

FirstWords FirstWords::of_this_process(std::span<const Device> devices) {
  FirstWords words;
  words.nonce = random_bytes<16>();
  words.memory = memory_identity();
  words.kind = devices.front().kind;
  words.cores = allowed_cores();
  for (const Device device : devices) {
    words.devices.push_back(device.index);
    words.threads += device.kind == DeviceKind::cpu ? static_cast<std::uint32_t>(cpu_threads(device)) : 1;
  }
  return words;
}

FirstWords::Bytes FirstWords::bytes() const {
  const Head head{nonce,
                  memory,
                  array_addresses,
                  port,
                  static_cast<std::uint8_t>(engine),
                  static_cast<std::uint8_t>(mpi),
                  static_cast<std::uint32_t>(kind),
                  gpus,
                  cores,
                  threads,
                  0};
  Bytes bytes(sizeof head + devices.size() * sizeof(std::uint16_t));
  std::memcpy(bytes.data(), &head, sizeof head);
  std::memcpy(bytes.data() + sizeof head, devices.data(), devices.size() * sizeof(std::uint16_t));
  return bytes;
}

std::vector<FirstWords> FirstWords::read(std::span<const Bytes> by_rank) {
  std::vector<FirstWords> all;
  for (const Bytes& bytes : by_rank) {
    const std::size_t rest = bytes.size() - std::min(bytes.size(), sizeof(Head));
    if (rest < sizeof(std::uint16_t) || rest % sizeof(std::uint16_t) != 0)
      raise<SyncError>("[sync] rank {} said {} bytes about its devices", all.size(), bytes.size());
    Head head;
    std::memcpy(&head, bytes.data(), sizeof head);
    FirstWords& words = all.emplace_back();
    words.nonce = head.nonce;
    words.memory = head.memory;
    words.array_addresses = head.array_addresses;
    words.port = head.port;
    if (head.engine > static_cast<std::uint8_t>(ProcessEngine::mpi) ||
        head.mpi > static_cast<std::uint8_t>(MpiTrouble::finished))
      raise<SyncError>("[sync] rank {} asks for engine {}, which no process of this version has", all.size() - 1,
                       head.engine);
    words.engine = static_cast<ProcessEngine>(head.engine);
    words.mpi = static_cast<MpiTrouble>(head.mpi);
    if (head.kind > static_cast<std::uint32_t>(DeviceKind::cuda))
      raise<SyncError>("[sync] rank {} has devices of kind {}, which no process of this version has", all.size() - 1,
                       head.kind);
    words.kind = static_cast<DeviceKind>(head.kind);
    words.gpus = head.gpus;
    words.cores = head.cores;
    words.threads = head.threads;
    words.devices.resize(rest / sizeof(std::uint16_t));
    std::memcpy(words.devices.data(), bytes.data() + sizeof head, rest);
  }
  return all;
}

void FirstWords::require_one_kind(std::span<const FirstWords> all) {
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank].kind != all[0].kind)
      raise<SyncError>("[sync] rank 0 has {} and rank {} has {}: a group has devices of one kind",
                       to_string({all[0].kind, all[0].devices[0]}), rank,
                       to_string({all[rank].kind, all[rank].devices[0]}));
}

std::size_t FirstWords::addresses(std::span<const FirstWords> all) {
  return static_cast<std::size_t>(std::ranges::min(all, {}, &FirstWords::array_addresses).array_addresses);
}

bool FirstWords::use_mpi(std::span<const FirstWords> all) {
  const auto asks = [](const FirstWords& each) { return each.engine == ProcessEngine::mpi; };
  const auto who = std::ranges::find_if(all, asks);
  if (who == all.end()) return false;
  if (const auto other = std::ranges::find_if_not(all, asks); other != all.end())
    raise<SyncError>("[sync] rank {} asks for ProcessEngine::mpi and rank {} does not: all processes do, or none",
                     who - all.begin(), other - all.begin());
  const auto without = std::ranges::find_if(all, [](const auto& each) { return each.mpi != MpiTrouble::none; });
  if (without != all.end())
    raise<SyncError>("[sync] ProcessEngine::mpi: rank {} cannot use MPI: {}", without - all.begin(),
                     text_of(without->mpi));
  return true;
}

bool FirstWords::cores_are_free(std::span<const FirstWords> all, int rank) {
  Cores cores;
  std::size_t threads = 0;
  for (const FirstWords& each : all) {
    cores |= each.cores;
    threads += each.threads;
  }
  const FirstWords& own = all[static_cast<std::size_t>(rank)];
  return cores.count() >= threads && own.cores.count() >= own.threads;
}

bool FirstWords::share_memory(std::span<const FirstWords> all) {
  return std::ranges::all_of(all, [&](const FirstWords& each) {
    return each.engine == ProcessEngine::automatic && each.memory == all.front().memory;
  });
}

}  // namespace tutti
