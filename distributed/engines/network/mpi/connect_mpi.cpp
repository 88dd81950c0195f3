// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/network/mpi/connect_mpi.h>

#include <tutti/backend/raise.h>
#include <tutti/distributed/engines/network/mpi/mpi_line.h>
#include <tutti/distributed/engines/network/mpi/mpi_watch.h>

#include <memory>
#include <span>
#include <type_traits>
#include <utility>

namespace tutti {

namespace {

constexpr int kMeetingTag = 0;

/// First words of a process over MPI.
struct MpiHello {
  std::array<std::uint8_t, 16> run;
  std::uint64_t piece_bytes;
  std::int32_t rank;
  std::int32_t unused;
};
static_assert(std::is_trivially_copyable_v<MpiHello> && sizeof(MpiHello) == 32);

/// Words of all processes, by MPI's ranks, and the requests that carry them.
struct Hellos {
  MpiHello own;
  std::vector<MpiHello> theirs;
  std::vector<MpiRequest> requests;
};

// Who fails leaves the words where MPI may still write to.
std::vector<MpiHello> exchange(MpiChannel& channel, const MpiHello& own, std::size_t processes,
                               MpiChannel::Clock::time_point deadline, const std::function<void()>& look_around) {
  const auto words = std::make_shared<Hellos>(Hellos{own, std::vector<MpiHello>(processes, own), {}});
  words->requests.resize(2 * processes);
  for (std::size_t other = 0; other < processes; ++other) {
    const int rank = static_cast<int>(other);
    if (rank == channel.rank()) continue;
    channel.receive(rank, kMeetingTag, std::as_writable_bytes(std::span(&words->theirs[other], 1)),
                    words->requests[2 * other]);
    channel.send(rank, kMeetingTag, std::as_bytes(std::span(&words->own, 1)), words->requests[2 * other + 1]);
  }
  try {
    channel.wait(words->requests, deadline, look_around, "the meeting");
  } catch (...) {
    channel.runtime().keep(words);
    throw;
  }
  return std::move(words->theirs);
}

}  // namespace

GroupLines connect_mpi(MpiRuntime& runtime, const MpiMeeting& meeting, std::chrono::milliseconds patience,
                       const std::function<void()>& look_around) {
  const auto deadline = MpiRuntime::Clock::now() + patience;
  runtime.start(deadline, look_around);
  const auto channel = std::make_shared<MpiChannel>(runtime, meeting.processes, deadline, look_around);
  const MpiHello own{meeting.run, meeting.piece_bytes, meeting.rank, 0};
  GroupLines group{std::vector<PeerLines>(meeting.processes), std::make_unique<MpiWatch>(channel)};
  std::vector<bool> known(meeting.processes);
  const auto hellos = exchange(*channel, own, meeting.processes, deadline, look_around);
  for (std::size_t i = 0; i < hellos.size(); ++i) {
    const MpiHello& hello = hellos[i];
    if (hello.run != own.run)
      raise<SyncError>("[mpi] rank {} of MPI is in another run of the job than rank {}", i, meeting.rank);
    if (hello.piece_bytes != own.piece_bytes)
      raise<SyncError>("[mpi] processes of one group have different options: pieces of {} and {} bytes",
                       own.piece_bytes, hello.piece_bytes);
    const auto place = static_cast<std::size_t>(hello.rank);
    if (place >= known.size() || known[place])
      raise<SyncError>("[mpi] two processes say that they are rank {}, or there are not as many", hello.rank);
    known[place] = true;
    for (std::size_t lane = 0; hello.rank != own.rank && lane < kLanes; ++lane)
      group.lines[place][lane] = std::make_unique<MpiLine>(channel, static_cast<int>(i), static_cast<Lane>(lane));
  }
  return group;
}

}  // namespace tutti
