// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/shared_memory/shared_reduction.h>

#include <tutti/backend/raise.h>
#include <tutti/distributed/engines/local/chunks.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace tutti {

namespace {

constexpr std::int64_t kShareAlignment = 64;  // elements: no two processes write to one cache line, whatever the type

// Elements of a piece that the process at a place sums.
struct ProcessShare {
  ProcessShare(std::int64_t count, std::size_t place, std::size_t processes) {
    const auto all = static_cast<std::int64_t>(processes);
    const std::int64_t even = ((count + all - 1) / all + kShareAlignment - 1) / kShareAlignment * kShareAlignment;
    begin = std::min(count, static_cast<std::int64_t>(place) * even);
    end = std::min(count, begin + even);
  }
  std::int64_t begin;
  std::int64_t end;
};

std::int64_t blocks_of(std::int64_t count) { return chunk_count(count, kLargestChunk); }

}  // namespace

PieceCut::PieceCut(std::int64_t all, DType dtype, std::size_t piece_bytes, std::size_t most_slices)
    : elements(all),
      length(static_cast<std::int64_t>(piece_bytes / most_slices / size_of(dtype)) / kShareAlignment * kShareAlignment),
      pieces(static_cast<std::size_t>(chunk_count(all, length))) {}

std::shared_ptr<SharedReduction> SharedReduction::make(std::shared_ptr<SharedFlight> flight, RingNumber first,
                                                       PieceCut cut, AllReduceRequest request) {
  const SegmentRing& ring = flight->ring;
  const std::vector<Device> devices = helping_devices(request);
  const auto staged = std::ranges::count_if(request.slices, [&](const AllReduceSlice& slice) {
    return !ring.holds(slice.gradient.raw_data(), slice.gradient.bytes());
  });
  std::vector<std::int64_t> chunks;
  chunks.reserve(cut.pieces * kSteps);
  for (std::size_t piece = 0; piece < cut.pieces; ++piece) {
    const std::int64_t copies = std::max<std::int64_t>(1, staged * blocks_of(cut.count(piece)));
    const ProcessShare share(cut.count(piece), ring.place(), ring.size());
    const std::int64_t count = share.end - share.begin;
    const std::int64_t sums = chunk_count(count, chunk_size(count, devices.size()));
    chunks.insert(chunks.end(), {copies, 1, sums, copies});
  }
  return std::shared_ptr<SharedReduction>(
      new SharedReduction(std::move(flight), first, cut, std::move(request), devices, chunks));
}

SharedReduction::SharedReduction(std::shared_ptr<SharedFlight> flight, RingNumber first, PieceCut cut,
                                 AllReduceRequest request, std::span<const Device> devices,
                                 std::span<const std::int64_t> chunks)
    : RingTask(std::move(flight), first, std::move(request.ready), devices, chunks),
      cut_(cut),
      request_(std::move(request)),
      helpers_(devices.size()) {
  for (const AllReduceSlice& slice : request_.slices) {
    const bool staged = !ring().holds(slice.gradient.raw_data(), slice.gradient.bytes());
    slices_.push_back({slice.gradient.raw_data(), staged});
    staged_count_ += staged ? 1 : 0;
  }
}

std::size_t SharedReduction::offset(std::size_t piece, std::size_t slice) const {
  const std::size_t element = size_of(request_.slices[slice].gradient.dtype());
  if (slices_[slice].staged)
    return ring().staging(number(piece)) + slice * static_cast<std::size_t>(cut_.length) * element;
  return ring().offset_of(slices_[slice].data) + static_cast<std::size_t>(cut_.begin(piece)) * element;
}

// One block of one staged slice: copy(slice, its bytes, the same in staging memory, number of bytes).
template <class Copy> void SharedReduction::for_staged(std::size_t piece, std::int64_t chunk, Copy copy) {
  const std::int64_t count = cut_.count(piece);
  if (staged_count_ == 0 || count == 0) return;
  auto before = chunk / blocks_of(count);
  const std::int64_t begin = chunk % blocks_of(count) * kLargestChunk;
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    if (!slices_[i].staged || before-- > 0) continue;
    const auto element = static_cast<std::int64_t>(size_of(request_.slices[i].gradient.dtype()));
    return copy(request_.slices[i], slices_[i].data + (cut_.begin(piece) + begin) * element,
                ring().own(offset(piece, i)) + begin * element,
                static_cast<std::size_t>(std::min(kLargestChunk, count - begin) * element));
  }
}

void SharedReduction::fill(std::size_t piece, std::int64_t chunk) {
  for_staged(piece, chunk, [](const AllReduceSlice& slice, std::byte* own, std::byte* staging, std::size_t bytes) {
    if (slice.contributes) std::memcpy(staging, own, bytes);
  });
}

void SharedReduction::take_back(std::size_t piece, std::int64_t chunk) {
  for_staged(piece, chunk, [](const AllReduceSlice&, std::byte* own, std::byte* staging, std::size_t bytes) {
    std::memcpy(own, staging, bytes);
  });
}

void SharedReduction::announce(std::size_t piece, Announcement& own) noexcept {
  own.kind = Announcement::Kind::all_reduce;
  own.dtype = request_.slices.front().gradient.dtype();
  own.wire = request_.wire;
  own.elements = static_cast<std::uint64_t>(cut_.elements);
  own.parts = 0;
  own.denominator = request_.denominator;
  own.wire_scale = request_.wire_scale;
  own.set_name(request_.parameter);
  own.slices = static_cast<std::uint32_t>(slices_.size());
  for (std::size_t i = 0; i < slices_.size(); ++i)
    own.slice[i] = {offset(piece, i), static_cast<std::uint32_t>(request_.numbers[i]), request_.slices[i].contributes};
}

std::vector<SummedSlice> SharedReduction::all_slices(std::size_t piece) const {
  const std::size_t element = size_of(request_.slices.front().gradient.dtype());
  const std::size_t bytes = static_cast<std::size_t>(cut_.count(piece)) * element;
  std::vector<SummedSlice> slices;
  slices.reserve(ring().size() * slices_.size());
  for (std::size_t place = 0; place < ring().size(); ++place) {
    const Announcement& theirs = ring().announcement(place, number(piece));
    const std::size_t count = theirs.slices;
    if (count > kMostSharedSlices)
      raise<SyncError>("[shared_memory] rank {} says that it has {} slices: {} are possible", ring().rank(place), count,
                       kMostSharedSlices);
    for (std::size_t i = 0; i < count; ++i) {
      const Announcement::Slice& slice = theirs.slice[i];
      slices.push_back({ring().at(place, slice.offset, bytes, element), slice.number, slice.contributes});
    }
  }
  std::ranges::sort(slices, {}, &SummedSlice::number);
  const auto twice = std::ranges::adjacent_find(slices, {}, &SummedSlice::number);
  if (twice != slices.end())
    raise<SyncError>("[shared_memory] reduction {} has two slices of device {}", number(piece).count(), twice->number);
  return slices;
}

void SharedReduction::look_up(std::size_t piece) {
  check_agreement(piece);
  sums_.emplace(all_slices(piece), request_.slices.front().gradient.dtype(), request_.wire, request_.denominator,
                request_.wire_scale);
}

void SharedReduction::combine(std::size_t piece, std::int64_t chunk) {
  const ProcessShare share(cut_.count(piece), ring().place(), ring().size());
  const std::int64_t size = chunk_size(share.end - share.begin, helpers_);
  const std::int64_t begin = share.begin + chunk * size;
  if (begin < share.end) sums_->run(begin, std::min(size, share.end - begin));
}

void SharedReduction::drop_chunks() noexcept {
  request_.slices.clear();
  RingTask::drop_chunks();
}

}  // namespace tutti
