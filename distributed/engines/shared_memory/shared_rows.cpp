// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/shared_memory/shared_rows.h>

#include <tutti/backend/raise.h>

#include <utility>

namespace tutti {

namespace {

constexpr std::int64_t kChunks[] = {1, 1, 1, 1};  // of each stage
static_assert(PackedRows::kAlignment % SegmentRing::kLine == 0);

}  // namespace

std::shared_ptr<SharedRows> SharedRows::make(std::shared_ptr<SharedFlight> flight, RingNumber number,
                                             SparseReduction request, std::span<const Member> members) {
  if (request.contributions.size() > kMostSharedSlices)
    raise<SyncError>("[shared_memory] {} contributions of one process: {} are possible", request.contributions.size(),
                     kMostSharedSlices);
  return std::shared_ptr<SharedRows>(new SharedRows(std::move(flight), number, std::move(request), members));
}

SharedRows::SharedRows(std::shared_ptr<SharedFlight> flight, RingNumber number, SparseReduction request,
                       std::span<const Member> members)
    : RingTask(std::move(flight), number, std::move(request.ready), request.receivers, kChunks),
      request_(std::move(request)),
      packed_("shared_memory", request_.parameter, members) {}

void SharedRows::fill(std::size_t, std::int64_t) {
  std::size_t all = 0;
  for (const SparseReduction::Contribution& contribution : request_.contributions) {
    const std::int64_t count = PackedRows::count_of(contribution.parts);
    places_.push_back({all, count});
    all += packed_.bytes_of(count);
  }
  begin_ = ring().staging(number(0));
  if (all > ring().piece_bytes()) {
    memory_ = shared_memory().allocate(all, Held::briefly);
    if (!memory_)
      raise<OutOfMemoryError>("[shared_memory] {} bytes of rows of parameter \"{}\" do not fit", all,
                              request_.parameter.name);
    begin_ = ring().offset_of(memory_.get());
  }
  for (std::size_t i = 0; i < places_.size(); ++i)
    packed_.pack(request_.contributions[i].parts, ring().own(begin_ + places_[i].offset));
}

void SharedRows::announce(std::size_t, Announcement& own) noexcept {
  own.kind = Announcement::Kind::rows;
  own.dtype = request_.parameter.dtype;
  own.wire = GradientWire::native;
  own.elements = static_cast<std::uint64_t>(columns_of(request_.parameter.shape));
  own.parts = 0;
  own.denominator = request_.denominator;
  own.wire_scale = 1.0;
  own.set_name(request_.parameter.name);
  own.slices = static_cast<std::uint32_t>(places_.size());
  for (std::size_t i = 0; i < places_.size(); ++i)
    own.slice[i] = {begin_ + places_[i].offset, static_cast<std::uint32_t>(request_.contributions[i].number), true,
                    static_cast<std::uint64_t>(places_[i].count)};
}

void SharedRows::look_up(std::size_t) {
  check_agreement(0);
  request_.contributions.clear();
  for (std::size_t place = 0; place < ring().size(); ++place) {
    const Announcement theirs = ring().announcement(place, number(0));  // a copy: what is checked stays
    if (theirs.slices > kMostSharedSlices)
      raise<SyncError>("[shared_memory] rank {} says that it has {} slices: {} are possible", ring().rank(place),
                       theirs.slices, kMostSharedSlices);
    for (std::size_t i = 0; i < theirs.slices; ++i) {
      const Announcement::Slice& slice = theirs.slice[i];
      packed_.check(ring().rank(place), slice.number, slice.rows);
      const auto count = static_cast<std::int64_t>(slice.rows);
      std::byte* const block = ring().at(place, slice.offset, packed_.bytes_of(count), PackedRows::kAlignment);
      request_.contributions.push_back(packed_.contribution(slice.number, count, block));
    }
  }
  packed_.order(request_.contributions);
}

void SharedRows::combine(std::size_t, std::int64_t) { tutti::reduce_sparse(request_); }

void SharedRows::take_back(std::size_t, std::int64_t) { memory_.reset(); }

void SharedRows::drop_chunks() noexcept {
  request_.contributions.clear();
  memory_.reset();
  RingTask::drop_chunks();
}

}  // namespace tutti
