// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/shared_memory/shared_collective.h>

#include <tutti/backend/raise.h>
#include <tutti/distributed/engines/local/chunks.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace tutti {

namespace {

using Place = CollectivePart::Place;

// Type of the arrays of this process, which are one type's; where it has none, the request says it.
DType dtype_of_arrays(const CollectiveRequest& request) {
  for (const auto* arrays : {&request.outputs, &request.inputs})
    for (const Array& array : *arrays)
      if (array.defined()) return array.dtype();
  if (request.dtype) return *request.dtype;
  raise<SyncError>("[shared_memory] {} has no array of this process", request.name);
}

const Array& array_at(const std::vector<Array>& arrays, const Place& place, const std::string& name) {
  if (place.member >= arrays.size() || !arrays[place.member].defined())
    raise<SyncError>("[shared_memory] {} has no array {} of this process", name, place.member);
  return arrays[place.member];
}

std::vector<Device> working_devices(const CollectiveRequest& request) {
  std::vector<Device> devices = request.devices;
  if (!devices.empty()) return devices;
  for (const auto* arrays : {&request.outputs, &request.inputs})
    for (const Array& array : *arrays)
      if (array.defined() && std::ranges::find(devices, array.device()) == devices.end())
        devices.push_back(array.device());
  return devices;
}

}  // namespace

std::vector<SharedCollective::Piece> SharedCollective::plan(const CollectiveRequest& request, const CollectiveCut& cut,
                                                            std::size_t own, std::size_t element,
                                                            const std::function<std::size_t(std::size_t)>& process_of,
                                                            std::size_t helpers) {
  std::vector<Piece> pieces(cut.pieces.size());
  for (std::size_t number = 0; number < pieces.size(); ++number) {
    Piece& piece = pieces[number];
    for (const CollectiveCut::Range& range : cut.pieces[number]) {
      const CollectivePart& whole = request.parts[range.part];
      CollectivePart part{range.count, {}, {}};
      for (std::size_t i = 0; i < whole.sources.size(); ++i) {
        const Place& source = whole.sources[i];
        const std::size_t process = process_of(source.number);
        part.sources.push_back({process, static_cast<std::int64_t>(range.sources[i] / element), source.number});
        if (process != own) continue;
        const std::byte* const data = array_at(request.inputs, source, request.name).raw_data();
        piece.copies.push_back({data + (source.offset + range.begin) * static_cast<std::int64_t>(element),
                                range.sources[i], static_cast<std::size_t>(range.count) * element});
      }
      for (const Place& target : whole.targets) {
        if (process_of(target.number) != own) continue;
        (void)array_at(request.outputs, target, request.name);
        part.targets.push_back({target.member, target.offset + range.begin, target.number});
      }
      if (part.targets.empty()) continue;
      const std::int64_t size = chunk_size(part.count, helpers);
      for (std::int64_t begin = 0; begin < part.count; begin += size)
        piece.work.push_back({piece.parts.size(), begin, std::min(size, part.count - begin)});
      piece.parts.push_back(std::move(part));
    }
  }
  return pieces;
}

std::shared_ptr<SharedCollective> SharedCollective::make(std::shared_ptr<SharedFlight> flight, RingNumber first,
                                                         CollectiveRequest request,
                                                         const std::function<std::size_t(std::size_t)>& process_of) {
  const SegmentRing& ring = flight->ring;
  const DType dtype = dtype_of_arrays(request);
  const std::size_t element = size_of(dtype);
  const std::vector<Device> devices = working_devices(request);
  const CollectiveCut cut(request.parts, ring.size(), process_of, element, ring.piece_bytes());
  std::vector<Piece> pieces = plan(request, cut, ring.place(), element, process_of, devices.size());
  std::vector<std::int64_t> chunks;
  for (const Piece& piece : pieces) {
    const auto at_least_one = [](std::size_t count) {
      return static_cast<std::int64_t>(std::max<std::size_t>(1, count));
    };
    chunks.insert(chunks.end(), {at_least_one(piece.copies.size()), 1, at_least_one(piece.work.size()), 1});
  }
  return std::shared_ptr<SharedCollective>(
      new SharedCollective(std::move(flight), first, std::move(request), dtype, std::move(pieces), devices, chunks));
}

SharedCollective::SharedCollective(std::shared_ptr<SharedFlight> flight, RingNumber first, CollectiveRequest request,
                                   DType dtype, std::vector<Piece> pieces, std::span<const Device> devices,
                                   std::span<const std::int64_t> chunks)
    : RingTask(std::move(flight), first, std::move(request.ready), devices, chunks),
      request_(std::move(request)),
      kept_(std::exchange(request_.inputs, {})),
      pieces_(std::move(pieces)) {
  announcement_.kind = Announcement::Kind::collective;
  announcement_.dtype = dtype;
  for (const CollectivePart& part : request_.parts) announcement_.elements += static_cast<std::uint64_t>(part.count);
  announcement_.parts = hash_of(request_.operation, request_.parts);
  announcement_.denominator = request_.denominator;
  announcement_.set_name(request_.name);
}

void SharedCollective::fill(std::size_t piece, std::int64_t chunk) {
  if (pieces_[piece].copies.empty()) return;
  const Copy& copy = pieces_[piece].copies[static_cast<std::size_t>(chunk)];
  std::memcpy(ring().own(ring().staging(number(piece)) + copy.to), copy.from, copy.bytes);
}

void SharedCollective::announce(std::size_t, Announcement& own) noexcept { own = announcement_; }

void SharedCollective::look_up(std::size_t piece) {
  check_agreement(piece);
  request_.inputs.clear();
  const std::size_t element = size_of(announcement_.dtype);
  const auto count = static_cast<std::int64_t>(ring().piece_bytes() / element);
  for (std::size_t place = 0; place < ring().size(); ++place)
    request_.inputs.push_back(
        Array::over(ring().at(place, ring().staging(number(piece)), ring().piece_bytes(), element), nullptr,
                    announcement_.dtype, {count}, {1}, cpu(0)));
}

void SharedCollective::combine(std::size_t piece, std::int64_t chunk) {
  if (pieces_[piece].work.empty()) return;
  const Work& work = pieces_[piece].work[static_cast<std::size_t>(chunk)];
  tutti::combine(request_, pieces_[piece].parts[work.index], work.begin, work.count);
}

void SharedCollective::drop_chunks() noexcept {
  request_ = {};
  kept_.clear();
  pieces_.clear();
  RingTask::drop_chunks();
}

}  // namespace tutti
