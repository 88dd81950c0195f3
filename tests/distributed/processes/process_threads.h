// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/engines/network/network_communicator.h>
#include <tutti/distributed/engines/shared_memory/shared_memory_communicator.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/distributed/process_group/memory_link.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/engines/shared_memory/rank_group.h>
#include <tutti/tests/distributed/processes/in_process_link.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace tutti::testing {

/// A group whose processes are threads of this one: each has a GradientSync, an engine over shared memory, or over
/// connections of the loopback interface, and a link.
/// Its devices are numbered through: rank 1 of {2, 2} has cpu:2 and cpu:3.
struct ProcessThreads {
  explicit ProcessThreads(std::vector<std::uint32_t> devices_by_rank, bool connects = false)
      : split(std::move(devices_by_rank)), links(InProcessLinks::make(split)), name(fresh_name()) {
    for (std::size_t rank = 0; rank < split.size(); ++rank)
      for (std::uint32_t i = 0; i < split[rank]; ++i)
        members.emplace_back(static_cast<int>(rank), cpu(static_cast<std::uint16_t>(members.size())));
    for (std::size_t rank = 0; connects && rank < split.size(); ++rank) {
      doors.push_back(std::make_unique<DataDoor>("127.0.0.1"));
      meeting.places.push_back({static_cast<int>(rank), "127.0.0.1", doors.back()->port()});
    }
  }

  std::size_t first_of(std::size_t rank) const {
    return std::accumulate(split.begin(), split.begin() + static_cast<std::ptrdiff_t>(rank), std::size_t{0});
  }
  std::vector<Device> devices_of(std::size_t rank) const {
    std::vector<Device> devices;
    for (const Member& member : members)
      if (member.rank == static_cast<int>(rank)) devices.push_back(member.device);
    return devices;
  }

  /// Waits until all ranks make theirs.
  std::unique_ptr<SharedMemoryCommunicator> engine(std::size_t rank) const {
    return SharedMemoryCommunicator::connect(
        name, 1, members, static_cast<int>(rank),
        {.piece_bytes = 1U << 16U, .array_bytes = 1U << 20U, .patience = std::chrono::seconds(30)});
  }
  /// The same, over connections.
  std::unique_ptr<NetworkCommunicator> connected_engine(std::size_t rank) const {
    NetworkMeeting own = meeting;
    own.rank = static_cast<int>(rank);
    return std::make_unique<NetworkCommunicator>(
        own, *doors[rank], members,
        NetworkOptions{.piece_bytes = 16U << 10U, .window_bytes = 1U << 20U, .patience = std::chrono::seconds(30)});
  }
  /// Runs `work(rank, sync)` for each rank, on a thread of its own; returns what each threw ("" for nothing).
  std::vector<std::string> run(const SyncOptions& options,
                               const std::function<void(std::size_t, GradientSync&)>& work) {
    return run_each([&](std::size_t) { return options; }, work);
  }
  /// The same where each rank has options of its own.
  std::vector<std::string> run_each(const std::function<SyncOptions(std::size_t rank)>& options_of,
                                    const std::function<void(std::size_t, GradientSync&)>& work) {
    return errors_of_devices(split.size(), [&](std::size_t rank) {
      const SyncOptions options = options_of(rank);
      if (!doors.empty()) {
        GradientSync sync(devices_of(rank), options, connected_engine(rank), std::move(links[rank]));
        return work(rank, sync);
      }
      auto engine = this->engine(rank);
      auto link = std::make_unique<MemoryLink>(std::move(links[rank]), engine->words());
      GradientSync sync(devices_of(rank), options, std::move(engine), std::move(link));
      work(rank, sync);
    });
  }

  std::vector<std::uint32_t> split;
  std::vector<std::unique_ptr<ProcessLink>> links;
  std::string name;
  std::vector<Member> members;
  std::vector<std::unique_ptr<DataDoor>> doors;  // none: memory is shared
  NetworkMeeting meeting{.key = {7}, .epoch = 1, .places = {}};
};

}  // namespace tutti::testing
