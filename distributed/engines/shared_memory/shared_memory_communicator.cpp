// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/shared_memory/shared_memory_communicator.h>

#include <tutti/backend/process/deadline.h>
#include <tutti/backend/raise.h>
#include <tutti/distributed/collectives/compressed_reduction.h>
#include <tutti/distributed/collectives/gradient_sums.h>
#include <tutti/distributed/engines/shared_memory/shared_collective.h>
#include <tutti/distributed/engines/shared_memory/shared_reduction.h>
#include <tutti/distributed/engines/shared_memory/shared_rows.h>
#include <tutti/distributed/threads/spinning_wait.h>

#include <fmt/format.h>

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
          .spins = known.spins.value_or(has_cores_for(members.size()))};
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
    : members_("shared_memory", members, ranks_of(members), rank), flight_([&] {
        const SegmentRing::Settings settings = settings_of(members, rank, epoch, options);
        const auto place = static_cast<std::size_t>(std::ranges::find(settings.ranks, rank) - settings.ranks.begin());
        const auto own = place < segments.size() ? segments[place] : nullptr;  // the ring objects
        return new SharedFlight{{segments, settings}, {own, SegmentRing::bytes_before_free(settings.piece_bytes)}, {}};
      }()) {}

SharedMemoryCommunicator::~SharedMemoryCommunicator() { flight_->crew.finish(); }

std::shared_ptr<CollectiveTask> SharedMemoryCommunicator::all_reduce(AllReduceRequest request) {
  check_slices(request);
  members_.number_slices(request);
  if (!enabled()) return std::make_shared<FinishedTask>();
  const Array& first = request.slices.front().gradient;
  const PieceCut cut(first.size(), first.dtype(), flight_->ring.piece_bytes(), members_.most_slices());
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

std::shared_ptr<CollectiveTask> SharedMemoryCommunicator::compressed_all_reduce(
    std::shared_ptr<CompressedReduction> reduction, std::vector<Event> ready, std::vector<Device> helping) {
  if (!enabled()) return std::make_shared<FinishedTask>();
  return launch_in_turns(*this, members_.rank(), std::move(reduction), std::move(ready), helping);
}

std::shared_ptr<CollectiveTask> SharedMemoryCommunicator::collective(CollectiveRequest request) {
  RingNumber& next = request.sequence == Sequence::round ? next_in_round_ : next_of_users_;
  auto task = SharedCollective::make(flight_, next, std::move(request),
                                     [this](std::size_t number) { return members_.place_of(number); });
  const std::size_t pieces = task->pieces();
  flight_->crew.open(task);
  next = next + pieces;
  return task;
}

void SharedMemoryCommunicator::regroup(std::span<const Member> members) { members_.require_all(members); }

std::shared_ptr<SegmentWords> SharedMemoryCommunicator::words() const {
  return std::make_shared<SegmentWords>(flight_->ring.segments(), flight_->ring.place());
}

Array SharedMemoryCommunicator::shared_array(const Shape& shape, DType dtype, Device device) {
  const std::size_t bytes = static_cast<std::size_t>(checked_element_count("shared_array", shape)) * size_of(dtype);
  const auto memory = flight_->memory.allocate(bytes, Held::long_term);
  if (!memory)
    raise<OutOfMemoryError>("[shared_memory] {} bytes do not fit: of {} shared bytes for arrays {} are left", bytes,
                            flight_->memory.bytes(), flight_->memory.left());
  return Array::over(memory.get(), memory, dtype, shape, contiguous_strides(shape), device);
}

Array SharedMemoryCommunicator::gradient_memory(std::int64_t elements, DType dtype, Device device) {
  const auto memory = flight_->memory.allocate(static_cast<std::size_t>(elements) * size_of(dtype), Held::long_term);
  return memory ? Array::over(memory.get(), memory, dtype, {elements}, {1}, device)
                : Array::zeros({elements}, dtype, device);
}

}  // namespace tutti
