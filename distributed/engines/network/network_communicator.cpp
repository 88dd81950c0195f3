// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/network/network_communicator.h>

#include <tutti/backend/error.h>
#include <tutti/backend/process/deadline.h>
#include <tutti/distributed/collectives/gradient_sums.h>
#include <tutti/distributed/engines/network/network_collective.h>
#include <tutti/distributed/engines/network/network_reduction.h>

#include <sched.h>

#include <algorithm>
#include <utility>

namespace tutti {

namespace {

constexpr std::size_t kLeastPiece = 8192;  // 64 elements of the largest type of kMostSharedSlices
constexpr std::size_t kMostPiece = std::size_t{64} << 20U;

// While one waits for others without sleep, these must have cores.
bool has_cores_for(std::size_t threads) {
  cpu_set_t allowed;
  return sched_getaffinity(0, sizeof allowed, &allowed) == 0 &&
         static_cast<std::size_t>(CPU_COUNT(&allowed)) >= threads;
}

NetworkOptions checked(NetworkOptions options) {
  if (options.piece_bytes < kLeastPiece || options.piece_bytes > kMostPiece)
    raise<SyncError>("[network] pieces of {} bytes: {} to {} are possible", options.piece_bytes, kLeastPiece,
                     kMostPiece);
  options.patience = bounded_wait<SyncError>("network patience", options.patience, std::chrono::milliseconds(1));
  options.grace = bounded_wait<SyncError>("network grace", options.grace);
  return options;
}

NetworkLines::Settings settings_of(const NetworkMeeting& meeting, std::span<const Member> members,
                                   const NetworkOptions& options) {
  NetworkLines::Settings settings;
  for (const NetworkMeeting::Place& place : meeting.places) settings.ranks.push_back(place.rank);
  settings.rank = meeting.rank;
  settings.epoch = meeting.epoch;
  settings.piece_bytes = options.piece_bytes;
  const std::size_t senders = 2 * meeting.places.size();  // two sequences of each
  settings.window_pieces = std::clamp<std::size_t>(options.window_bytes / options.piece_bytes / senders, 2, 64);
  settings.patience = options.patience;
  settings.grace = options.grace;
  const auto own = static_cast<std::size_t>(std::ranges::count(members, meeting.rank, &Member::rank));
  settings.spins = has_cores_for(own + 1);
  return settings;
}

}  // namespace

NetworkCommunicator::NetworkCommunicator(const NetworkMeeting& meeting, const DataDoor& door,
                                         std::span<const Member> members, NetworkOptions options)
    : members_({members.begin(), members.end()}), rank_(meeting.rank) {
  const NetworkOptions known = checked(options);
  std::vector<std::size_t> slices(meeting.places.size(), 0);
  for (std::size_t number = 0; number < members_.size(); ++number) {
    const Member& member = members_[number];
    if (member.device.kind != DeviceKind::cpu) raise<SyncError>("[network] {} is no CPU", members_.name(number));
    const auto place = std::ranges::find(meeting.places, member.rank, &NetworkMeeting::Place::rank);
    if (place == meeting.places.end()) raise<SyncError>("[network] rank {} is no process of the meeting", member.rank);
    if (member.rank == rank_) own_numbers_.push_back(number);
    if (++slices[static_cast<std::size_t>(place - meeting.places.begin())] > kMostSharedSlices)
      raise<SyncError>("[network] rank {} has more than {} devices", member.rank, kMostSharedSlices);
  }
  for (std::size_t place = 0; place < slices.size(); ++place)
    if (slices[place] == 0) raise<SyncError>("[network] rank {} has no device", meeting.places[place].rank);
  most_slices_ = std::ranges::max(slices);
  flight_.reset(new NetworkFlight{
      {connect_lines(meeting, door, known.piece_bytes, known.encrypt, known.meeting, known.look_around),
       settings_of(meeting, members, known)},
      {}});
}

NetworkCommunicator::~NetworkCommunicator() { flight_->crew.finish(); }

std::size_t NetworkCommunicator::process_of(std::size_t number) const {
  if (number >= members_.size())
    raise<SyncError>("[network] a group of {} devices has no device {}", members_.size(), number);
  std::size_t place = 0;
  while (flight_->lines.rank(place) != members_[number].rank) ++place;
  return place;
}

std::shared_ptr<CollectiveTask> NetworkCommunicator::launch(const std::shared_ptr<NetworkTask>& task,
                                                            Sequence sequence) {
  ++launched_[static_cast<std::size_t>(sequence)];
  task->open();
  flight_->crew.open(task);
  return task;
}

std::shared_ptr<CollectiveTask> NetworkCommunicator::all_reduce(AllReduceRequest request) {
  check_slices(request);
  if (request.numbers.empty()) request.numbers = own_numbers_;
  if (request.numbers.size() != request.slices.size())
    raise<SyncError>("[all_reduce] {} slices for the {} devices of rank {}", request.slices.size(),
                     request.numbers.size(), rank_);
  for (std::size_t i = 0; i < request.slices.size(); ++i) {
    const Device device = request.slices[i].gradient.device();
    if (process_of(request.numbers[i]) != flight_->lines.place() || members_[request.numbers[i]].device != device)
      raise<SyncError>("[all_reduce] the slice of {} on rank {} says that it is number {}, {}", to_string(device),
                       rank_, request.numbers[i], members_.name(request.numbers[i]));
  }
  if (!enabled()) return std::make_shared<FinishedTask>();
  return launch(NetworkReduction::make(flight_, launched_[0] + 1, std::move(request), most_slices_), Sequence::round);
}

std::shared_ptr<CollectiveTask> NetworkCommunicator::collective(CollectiveRequest request) {
  const Sequence sequence = request.sequence;
  const std::uint32_t number = launched_[static_cast<std::size_t>(sequence)] + 1;
  return launch(NetworkCollective::make(flight_, number, std::move(request),
                                        [this](std::size_t each) { return process_of(each); }),
                sequence);
}

void NetworkCommunicator::regroup(std::span<const Member> members) {
  const NetworkLines& lines = flight_->lines;
  for (std::size_t place = 0; place < lines.size(); ++place)
    if (std::ranges::find(members, lines.rank(place), &Member::rank) == members.end())
      raise<SyncError>("[network] rank {} has left: its processes' group ends, a new one makes a new engine",
                       lines.rank(place));
}

}  // namespace tutti
