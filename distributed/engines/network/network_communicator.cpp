// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/network/network_communicator.h>

#include <tutti/backend/process/deadline.h>
#include <tutti/backend/raise.h>
#include <tutti/distributed/collectives/compressed_reduction.h>
#include <tutti/distributed/collectives/gradient_sums.h>
#include <tutti/distributed/engines/network/network_collective.h>
#include <tutti/distributed/engines/network/network_reduction.h>
#include <tutti/distributed/engines/network/network_rows.h>
#include <tutti/distributed/threads/spinning_wait.h>

#include <algorithm>
#include <utility>

namespace tutti {

namespace {

constexpr std::size_t kLeastPiece = 8192;  // 64 elements of the largest type of kMostSharedSlices
constexpr std::size_t kMostPiece = std::size_t{64} << 20U;

NetworkOptions checked(NetworkOptions options) {
  if (options.piece_bytes < kLeastPiece || options.piece_bytes > kMostPiece)
    raise<SyncError>("[network] pieces of {} bytes: {} to {} are possible", options.piece_bytes, kLeastPiece,
                     kMostPiece);
  options.patience = bounded_wait<SyncError>("network patience", options.patience, std::chrono::milliseconds(1));
  options.grace = bounded_wait<SyncError>("network grace", options.grace);
  return options;
}

std::vector<int> ranks_of(const NetworkMeeting& meeting) {
  std::vector<int> ranks;
  for (const NetworkMeeting::Place& place : meeting.places) ranks.push_back(place.rank);
  return ranks;
}

NetworkLines::Settings settings_of(std::vector<int> ranks, int rank, std::uint64_t epoch,
                                   std::span<const Member> members, const NetworkOptions& options) {
  NetworkLines::Settings settings;
  settings.ranks = std::move(ranks);
  settings.rank = rank;
  settings.epoch = epoch;
  settings.piece_bytes = options.piece_bytes;
  const std::size_t senders = 2 * settings.ranks.size();  // two sequences of each
  settings.window_pieces = std::clamp<std::size_t>(options.window_bytes / options.piece_bytes / senders, 2, 64);
  settings.patience = options.patience;
  settings.grace = options.grace;
  const auto own = static_cast<std::size_t>(std::ranges::count(members, rank, &Member::rank));
  settings.spins = has_cores_for(own + 1);
  return settings;
}

// Members that cannot be are told before anybody is met.
GroupLines connected(const NetworkMeeting& meeting, const DataDoor& door, std::span<const Member> members,
                     const NetworkOptions& options) {
  (void)ProcessMembers("network", members, ranks_of(meeting), meeting.rank);
  const NetworkOptions known = checked(options);
  return connect_lines(meeting, door, known.piece_bytes, known.encrypt, known.meeting, known.look_around);
}

}  // namespace

NetworkCommunicator::NetworkCommunicator(const NetworkMeeting& meeting, const DataDoor& door,
                                         std::span<const Member> members, NetworkOptions options)
    : NetworkCommunicator(connected(meeting, door, members, options), ranks_of(meeting), meeting.rank, meeting.epoch,
                          members, options) {}

NetworkCommunicator::NetworkCommunicator(GroupLines lines, std::vector<int> ranks, int rank, std::uint64_t epoch,
                                         std::span<const Member> members, NetworkOptions options)
    : members_("network", members, ranks, rank) {
  flight_.reset(new NetworkFlight{
      {std::move(lines), settings_of(std::move(ranks), rank, epoch, members, checked(std::move(options)))}, {}});
}

NetworkCommunicator::~NetworkCommunicator() { flight_->crew.finish(); }

std::shared_ptr<CollectiveTask> NetworkCommunicator::launch(const std::shared_ptr<NetworkTask>& task,
                                                            Sequence sequence) {
  ++launched_[static_cast<std::size_t>(sequence)];
  task->open();
  flight_->crew.open(task);
  return task;
}

std::shared_ptr<CollectiveTask> NetworkCommunicator::all_reduce(AllReduceRequest request) {
  check_slices(request);
  members_.number_slices(request);
  if (!enabled()) return std::make_shared<FinishedTask>();
  return launch(NetworkReduction::make(flight_, launched_[0] + 1, std::move(request), members_.most_slices()),
                Sequence::round);
}

std::shared_ptr<CollectiveTask> NetworkCommunicator::reduce_sparse(SparseReduction request) {
  if (!enabled()) return std::make_shared<FinishedTask>();
  return launch(NetworkRows::make(flight_, launched_[0] + 1, std::move(request), members_.all()), Sequence::round);
}

std::shared_ptr<CollectiveTask> NetworkCommunicator::compressed_all_reduce(
    std::shared_ptr<CompressedReduction> reduction, std::vector<Event> ready, std::vector<Device> helping) {
  if (!enabled()) return std::make_shared<FinishedTask>();
  return launch_in_turns(*this, members_.rank(), std::move(reduction), std::move(ready), helping);
}

std::shared_ptr<CollectiveTask> NetworkCommunicator::collective(CollectiveRequest request) {
  const Sequence sequence = request.sequence;
  const std::uint32_t number = launched_[static_cast<std::size_t>(sequence)] + 1;
  return launch(NetworkCollective::make(flight_, number, std::move(request),
                                        [this](std::size_t each) { return members_.place_of(each); }),
                sequence);
}

void NetworkCommunicator::regroup(std::span<const Member> members) { members_.require_all(members); }

}  // namespace tutti
