// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/shared_memory/shared_rows.h>

#include <tutti/backend/error.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace tutti {

namespace {

constexpr std::int64_t kChunks[] = {1, 1, 1, 1};  // of each stage

std::size_t in_lines(std::size_t bytes) {
  return (bytes + SegmentRing::kLine - 1) / SegmentRing::kLine * SegmentRing::kLine;
}

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
      members_(members.begin(), members.end()) {}

std::size_t SharedRows::bytes_of_indices(std::int64_t count) const {
  return in_lines(static_cast<std::size_t>(count) * sizeof(std::int64_t));
}
std::size_t SharedRows::bytes_of_rows(std::int64_t count) const {
  return in_lines(static_cast<std::size_t>(count * columns_of(request_.parameter.shape)) *
                  size_of(request_.parameter.dtype));
}

void SharedRows::fill(std::size_t, std::int64_t) {
  std::size_t all = 0;
  for (const SparseReduction::Contribution& contribution : request_.contributions) {
    std::int64_t count = 0;
    for (const SparseGradient& part : contribution.parts) count += part.count();
    places_.push_back({all, count});
    all += bytes_of_indices(count) + bytes_of_rows(count);
  }
  begin_ = ring().staging(number(0));
  if (all > ring().piece_bytes()) {
    memory_ = shared_memory().allocate(all);
    if (!memory_)
      raise<OutOfMemoryError>("[shared_memory] {} bytes of rows of parameter \"{}\" do not fit", all,
                              request_.parameter.name);
    begin_ = ring().offset_of(memory_.get());
  }
  for (std::size_t i = 0; i < places_.size(); ++i) {
    std::byte* indices = ring().own(begin_ + places_[i].offset);
    std::byte* rows = indices + bytes_of_indices(places_[i].count);
    for (const SparseGradient& part : request_.contributions[i].parts) {
      if (part.count() == 0) continue;
      std::memcpy(indices, part.indices.raw_data(), part.indices.bytes());
      indices += part.indices.bytes();
      if (part.rows.size() == 0) continue;
      std::memcpy(rows, part.rows.raw_data(), part.rows.bytes());
      rows += part.rows.bytes();
    }
  }
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

SparseGradient SharedRows::part_at(std::size_t place, const Announcement::Slice& slice) const {
  const SyncParameter& parameter = request_.parameter;
  // So many that their bytes can be counted.
  const std::uint64_t most = std::uint64_t{1} << 60U;
  const auto width = static_cast<std::uint64_t>(columns_of(parameter.shape)) * size_of(parameter.dtype);
  if (slice.rows > most / (sizeof(std::int64_t) + width) || slice.number >= members_.size() ||
      members_[slice.number].rank != ring().rank(place))
    raise<SyncError>("[shared_memory] rank {} says that device {} of {} has {} rows", ring().rank(place), slice.number,
                     members_.size(), slice.rows);
  const auto count = static_cast<std::int64_t>(slice.rows);
  std::byte* const data =
      ring().at(place, slice.offset, bytes_of_indices(count) + bytes_of_rows(count), SegmentRing::kLine);
  Shape shape = parameter.shape;
  shape[0] = count;
  return {
      Array::over(data, nullptr, DType::i64, {count}, {1}, cpu(0)),
      Array::over(data + bytes_of_indices(count), nullptr, parameter.dtype, shape, contiguous_strides(shape), cpu(0)),
      parameter.shape};
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
      SparseGradient part = part_at(place, slice);
      request_.contributions.push_back({members_[slice.number], slice.number, {std::move(part)}});
    }
  }
  std::ranges::sort(request_.contributions, {}, &SparseReduction::Contribution::number);
  const auto twice = std::ranges::adjacent_find(request_.contributions, {}, &SparseReduction::Contribution::number);
  if (twice != request_.contributions.end())
    raise<SyncError>("[shared_memory] reduction {} has rows of device {} twice", number(0).count(), twice->number);
}

void SharedRows::combine(std::size_t, std::int64_t) { tutti::reduce_sparse(request_); }

void SharedRows::take_back(std::size_t, std::int64_t) { memory_.reset(); }

void SharedRows::drop_chunks() noexcept {
  request_.contributions.clear();
  memory_.reset();
  RingTask::drop_chunks();
}

}  // namespace tutti
