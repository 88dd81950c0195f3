// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/shared_memory/shared_memory_communicator.h>

#include <tutti/backend/error.h>
#include <tutti/backend/process/deadline.h>
#include <tutti/distributed/collectives/gradient_sums.h>
#include <tutti/distributed/engines/shared_memory/shared_collective.h>
#include <tutti/distributed/engines/shared_memory/shared_reduction.h>
#include <tutti/distributed/engines/shared_memory/shared_rows.h>

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <utility>

namespace tutti {

namespace {

constexpr std::size_t kLeastPiece = 8192;  // 64 elements of 8 bytes for each of the most slices
constexpr std::size_t kMostPiece = std::size_t{1} << 30U;
constexpr std::size_t kMostArrays = std::size_t{1} << 43U;

// Ascending.
std::vector<int> ranks_of(std::span<const Member> members) {
  std::vector<int> ranks;
  for (const Member& member : members) ranks.push_back(member.rank);
  std::ranges::sort(ranks);
  ranks.erase(std::ranges::unique(ranks).begin(), ranks.end());
  return ranks;
}

// While one waits for others without sleep, these must have cores.
bool cores_for(std::size_t threads) {
  cpu_set_t allowed;
  return sched_getaffinity(0, sizeof allowed, &allowed) == 0 &&
         static_cast<std::size_t>(CPU_COUNT(&allowed)) >= threads;
}

SharedMemoryOptions checked(SharedMemoryOptions options) {
  if (options.piece_bytes < kLeastPiece || options.piece_bytes > kMostPiece)
    raise<SyncError>("[shared_memory] pieces of {} bytes: {} to {} are possible", options.piece_bytes, kLeastPiece,
                     kMostPiece);
  options.piece_bytes = (options.piece_bytes + SegmentRing::kLine - 1) / SegmentRing::kLine * SegmentRing::kLine;
  options.patience = bounded_wait<SyncError>("shared_memory patience", options.patience, std::chrono::milliseconds(1));
  return options;
}

SegmentRing::Settings settings_of(std::span<const Member> members, int rank, std::uint64_t epoch,
                                  const SharedMemoryOptions& options) {
  const SharedMemoryOptions known = checked(options);
  return {.ranks = ranks_of(members),
          .rank = rank,
          .epoch = epoch,
          .piece_bytes = known.piece_bytes,
          .patience = known.patience,
          .spins = cores_for(members.size())};
}

}  // namespace

std::shared_ptr<SharedSegment> SharedMemoryCommunicator::make_segment(std::uint64_t epoch, int rank,
                                                                      const SharedMemoryOptions& options) {
  const std::size_t before = SegmentRing::bytes_before_free(checked(options).piece_bytes);
  if (options.array_bytes > kMostArrays)
    raise<OutOfMemoryError>("[shared_memory] no machine has {} bytes for arrays", options.array_bytes);
  auto segment = SharedSegment::make(fmt::format("tutti-rank-{}-epoch-{}", rank, epoch), before, options.array_bytes);
  SegmentRing::prepare(*segment, settings_of({}, rank, epoch, options));
  return segment;
}

std::unique_ptr<SharedMemoryCommunicator> SharedMemoryCommunicator::connect(const std::string& name,
                                                                            std::uint64_t epoch,
                                                                            std::span<const Member> members, int rank,
                                                                            SharedMemoryOptions options) {
  const auto own = make_segment(epoch, rank, options);
  auto segments = exchange_segments({name, epoch, ranks_of(members), rank}, own, options.meeting, options.look_around);
  return std::make_unique<SharedMemoryCommunicator>(std::move(segments), epoch, members, rank, options);
}

SharedMemoryCommunicator::SharedMemoryCommunicator(std::vector<std::shared_ptr<SharedSegment>> segments,
                                                   std::uint64_t epoch, std::span<const Member> members, int rank,
                                                   SharedMemoryOptions options)
    : members_({members.begin(), members.end()}), rank_(rank), flight_([&] {
        const SegmentRing::Settings settings = settings_of(members, rank, epoch, options);
        const auto place = std::ranges::find(settings.ranks, rank) - settings.ranks.begin();
        const auto own = static_cast<std::size_t>(place) < segments.size() ? segments[static_cast<std::size_t>(place)]
                                                                           : nullptr;  // the ring objects
        return new SharedFlight{{segments, settings}, {own, SegmentRing::bytes_before_free(settings.piece_bytes)}, {}};
      }()) {
  std::vector<std::size_t> slices(flight_->ring.size(), 0);
  for (std::size_t number = 0; number < members_.size(); ++number) {
    const Member& member = members_[number];
    if (member.device.kind != DeviceKind::cpu) raise<SyncError>("[shared_memory] {} is no CPU", members_.name(number));
    if (member.rank == rank) own_numbers_.push_back(number);
    if (++slices[process_of(number)] > kMostSharedSlices)
      raise<SyncError>("[shared_memory] rank {} has more than {} devices", member.rank, kMostSharedSlices);
  }
  most_slices_ = std::ranges::max(slices);
}

SharedMemoryCommunicator::~SharedMemoryCommunicator() { flight_->crew.finish(); }

std::size_t SharedMemoryCommunicator::process_of(std::size_t number) const {
  if (number >= members_.size())
    raise<SyncError>("[shared_memory] a group of {} devices has no device {}", members_.size(), number);
  const SegmentRing& ring = flight_->ring;
  std::size_t place = 0;
  while (ring.rank(place) != members_[number].rank) ++place;
  return place;
}

std::shared_ptr<CollectiveTask> SharedMemoryCommunicator::all_reduce(AllReduceRequest request) {
  check_slices(request);
  if (request.numbers.empty()) request.numbers = own_numbers_;
  if (request.numbers.size() != request.slices.size())
    raise<SyncError>("[all_reduce] {} slices for the {} devices of rank {}", request.slices.size(),
                     request.numbers.size(), rank_);
  for (std::size_t i = 0; i < request.slices.size(); ++i) {
    const Device device = request.slices[i].gradient.device();
    if (process_of(request.numbers[i]) != flight_->ring.place() || members_[request.numbers[i]].device != device)
      raise<SyncError>("[all_reduce] the slice of {} on rank {} says that it is number {}, {}", to_string(device),
                       rank_, request.numbers[i], members_.name(request.numbers[i]));
  }
  if (!enabled()) return std::make_shared<FinishedTask>();
  const Array& first = request.slices.front().gradient;
  const PieceCut cut(first.size(), first.dtype(), flight_->ring.piece_bytes(), most_slices_);
  auto task = SharedReduction::make(flight_, next_in_round_, cut, std::move(request));
  flight_->crew.open(task);
  next_in_round_ = next_in_round_ + cut.pieces;
  return task;
}

std::shared_ptr<CollectiveTask> SharedMemoryCommunicator::reduce_sparse(SparseReduction request) {
  if (!enabled()) return std::make_shared<FinishedTask>();
  auto task = SharedRows::make(flight_, next_in_round_, std::move(request), members_.all());
  flight_->crew.open(task);
  next_in_round_ = next_in_round_ + 1;
  return task;
}

std::shared_ptr<CollectiveTask> SharedMemoryCommunicator::collective(CollectiveRequest request) {
  RingNumber& next = request.sequence == Sequence::round ? next_in_round_ : next_of_users_;
  auto task = SharedCollective::make(flight_, next, std::move(request),
                                     [this](std::size_t number) { return process_of(number); });
  const std::size_t pieces = task->pieces();
  flight_->crew.open(task);
  next = next + pieces;
  return task;
}

void SharedMemoryCommunicator::regroup(std::span<const Member> members) {
  const std::vector<int> left = ranks_of(members);
  const SegmentRing& ring = flight_->ring;
  for (std::size_t place = 0; place < ring.size(); ++place)
    if (!std::ranges::binary_search(left, ring.rank(place)))
      raise<SyncError>("[shared_memory] rank {} has left: its processes' group ends, a new one makes a new engine",
                       ring.rank(place));
}

std::shared_ptr<SegmentWords> SharedMemoryCommunicator::words() const {
  return std::make_shared<SegmentWords>(flight_->ring.segments(), flight_->ring.place());
}

Array SharedMemoryCommunicator::shared_array(const Shape& shape, DType dtype, Device device) {
  const std::size_t bytes = static_cast<std::size_t>(checked_element_count("shared_array", shape)) * size_of(dtype);
  const auto memory = flight_->memory.allocate(bytes);
  if (!memory)
    raise<OutOfMemoryError>("[shared_memory] {} bytes do not fit: of {} shared bytes for arrays {} are left", bytes,
                            flight_->memory.bytes(), flight_->memory.left());
  return Array::over(memory.get(), memory, dtype, shape, contiguous_strides(shape), device);
}

Array SharedMemoryCommunicator::gradient_memory(std::int64_t elements, DType dtype, Device device) {
  const auto memory = flight_->memory.allocate(static_cast<std::size_t>(elements) * size_of(dtype));
  return memory ? Array::over(memory.get(), memory, dtype, {elements}, {1}, device)
                : Array::zeros({elements}, dtype, device);
}

}  // namespace tutti
