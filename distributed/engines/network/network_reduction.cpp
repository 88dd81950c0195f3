// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/network/network_reduction.h>

#include <tutti/backend/error.h>
#include <tutti/backend/numbers/short_float.h>
#include <tutti/distributed/collectives/gradient_sums.h>
#include <tutti/distributed/engines/local/chunks.h>

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

namespace tutti {

namespace {

using Stage = NetworkTask::Stage;

DType travelling_type(const AllReduceRequest& request) {
  switch (request.wire) {
    case GradientWire::bf16: return DType::bf16;
    case GradientWire::f16: return DType::f16;
    case GradientWire::native: break;
  }
  return request.slices.front().gradient.dtype();
}

// Calls `f` with the 16-bit type.
template <class F> void with_short_type(DType dtype, F&& f) {
  if (dtype == DType::bf16)
    f(std::type_identity<BFloat16>());
  else
    f(std::type_identity<Float16>());
}

Announcement announcement_for(const AllReduceRequest& request) {
  Announcement own;
  own.kind = Announcement::Kind::all_reduce;
  own.dtype = request.slices.front().gradient.dtype();
  own.wire = request.wire;
  own.elements = static_cast<std::uint64_t>(request.slices.front().gradient.size());
  own.denominator = request.denominator;
  own.wire_scale = request.wire_scale;
  own.set_name(request.parameter);
  own.slices = static_cast<std::uint32_t>(request.slices.size());
  for (std::size_t i = 0; i < request.slices.size(); ++i)
    own.slice[i] = {0, static_cast<std::uint32_t>(request.numbers[i]), request.slices[i].contributes};
  return own;
}

// Blocks of a piece of all shares, for work that is the same for every element.
std::int64_t blocks_of(const ShareCut& cut, std::uint32_t piece) {
  std::int64_t blocks = 0;
  for (std::size_t place = 0; place < cut.shares; ++place)
    blocks += (cut.count(place, piece) + kLargestChunk - 1) / kLargestChunk;
  return blocks;
}

/// Elements of one block.
struct Block {
  std::int64_t begin = 0;
  std::int64_t count = 0;
};
Block block_at(const ShareCut& cut, std::uint32_t piece, std::int64_t block) {
  for (std::size_t place = 0; place < cut.shares; ++place) {
    const std::int64_t count = cut.count(place, piece);
    const std::int64_t blocks = (count + kLargestChunk - 1) / kLargestChunk;
    if (block < blocks)
      return {cut.begin(place, piece) + block * kLargestChunk, std::min(kLargestChunk, count - block * kLargestChunk)};
    block -= blocks;
  }
  return {};
}

// All slices are prepared and go first, then sums are made as others' come, then results are spread. Sums of all
// elements take the place of slices that are on their way.
std::vector<Stage> plan(const ShareCut& cut, std::size_t place, std::size_t helpers, bool narrows, bool spreads) {
  std::vector<Stage> stages;
  const auto at_least_one = [](std::int64_t count) { return std::max<std::int64_t>(1, count); };
  if (narrows)
    for (std::uint32_t piece = 0; piece < cut.pieces; ++piece)
      stages.push_back({Stage::Kind::fill, piece, at_least_one(blocks_of(cut, piece))});
  else
    stages.push_back({Stage::Kind::fill, cut.pieces - 1, 1});
  for (std::uint32_t piece = 0; piece < cut.pieces; ++piece) {
    const std::int64_t count = cut.count(place, piece);
    if (!cut.is_divided()) stages.push_back({Stage::Kind::look_up, piece, 1});
    stages.push_back({Stage::Kind::combine, piece, chunk_count(count, chunk_size(count, helpers))});
  }
  for (std::uint32_t piece = 0; spreads && piece < cut.pieces; ++piece)
    stages.push_back({Stage::Kind::spread, piece, at_least_one(blocks_of(cut, piece))});
  stages.push_back({Stage::Kind::rest, 0, 1});
  return stages;
}

}  // namespace

std::shared_ptr<NetworkReduction> NetworkReduction::make(std::shared_ptr<NetworkFlight> flight, std::uint32_t number,
                                                         AllReduceRequest request, std::size_t most_slices) {
  const NetworkLines& lines = flight->lines;
  const Array& first = request.slices.front().gradient;
  const bool narrows = request.wire != GradientWire::native;
  const DType travels = travelling_type(request);
  std::vector<Array> staging;
  std::vector<std::byte*> travelling;
  for (const AllReduceSlice& slice : request.slices) {
    if (narrows) staging.push_back(Array::empty({first.size()}, travels, slice.gradient.device()));
    travelling.push_back(narrows ? staging.back().raw_data() : slice.gradient.raw_data());
  }
  const ShareCut cut(first.size(), lines.size(), size_of(travels), lines.piece_bytes(), most_slices);
  const std::vector<Device> devices = helping_devices(request);
  auto stages = plan(cut, lines.place(), devices.size(), narrows, narrows || request.slices.size() > 1);
  auto exchange = std::make_shared<ReductionExchange>(number, announcement_for(request), lines.size(), lines.place(),
                                                      cut, size_of(travels), std::move(travelling));
  return std::shared_ptr<NetworkReduction>(new NetworkReduction(
      std::move(flight), std::move(exchange), std::move(stages), std::move(request), std::move(staging), devices));
}

NetworkReduction::NetworkReduction(std::shared_ptr<NetworkFlight> flight, std::shared_ptr<ReductionExchange> exchange,
                                   std::vector<Stage> stages, AllReduceRequest request, std::vector<Array> staging,
                                   std::span<const Device> devices)
    : NetworkTask(std::move(flight), exchange, std::move(stages), std::move(request.ready), devices),
      reduction_(std::move(exchange)),
      request_(std::move(request)),
      staging_(std::move(staging)),
      helpers_(devices.size()) {}

void NetworkReduction::run_stage(const Stage& stage, std::int64_t chunk) {
  switch (stage.kind) {
    case Stage::Kind::fill: return staging_.empty() ? void() : narrow(stage.piece, chunk);
    case Stage::Kind::combine: return combine(stage.piece, chunk);
    case Stage::Kind::spread: return spread(stage.piece, chunk);
    case Stage::Kind::look_up:
    case Stage::Kind::rest: return;
  }
}

// Each contribution is rounded once.
void NetworkReduction::narrow(std::uint32_t piece, std::int64_t chunk) const {
  const Block block = block_at(reduction_->cut(), piece, chunk);
  const auto scale = static_cast<float>(request_.wire_scale);
  for (std::size_t i = 0; i < staging_.size(); ++i) {
    if (!request_.slices[i].contributes) continue;
    const float* const from = request_.slices[i].gradient.data<float>() + block.begin;
    with_short_type(staging_[i].dtype(), [&]<class T>(std::type_identity<T>) {
      T* const to = reinterpret_cast<T*>(staging_[i].raw_data()) + block.begin;
      for (std::int64_t e = 0; e < block.count; ++e) to[e] = T(from[e] * scale);
    });
  }
}

void NetworkReduction::combine(std::uint32_t piece, std::int64_t chunk) const {
  const std::size_t own = place();
  const std::int64_t count = reduction_->cut().count(own, piece);
  const std::int64_t size = chunk_size(count, helpers_);
  const std::int64_t begin = chunk * size;
  if (begin >= count) return;
  const std::size_t element = reduction_->element();
  const std::size_t first = static_cast<std::size_t>(reduction_->cut().begin(own, piece)) * element;
  std::vector<SummedSlice> slices;
  for (std::size_t place = 0; place < processes(); ++place) {
    const Announcement& side = place == own ? reduction_->announcement() : reduction_->peer(place).theirs;
    std::byte* theirs = place == own ? nullptr : reduction_->peer(place).blocks[piece].get();
    for (std::uint32_t i = 0; i < side.slices; ++i) {
      const auto& slice = side.slice[i];
      if (place == own) {
        slices.push_back({reduction_->travelling(i) + first, slice.number, slice.contributes, i == 0});
      } else if (slice.contributes) {
        slices.push_back({theirs, slice.number, true, false});
        theirs += static_cast<std::size_t>(count) * element;
      }
    }
  }
  std::ranges::sort(slices, {}, &SummedSlice::number);
  const DType dtype = travelling_type(request_);
  const double denominator = request_.denominator * (request_.wire == GradientWire::native ? 1.0 : request_.wire_scale);
  ElementSums(slices, dtype, GradientWire::native, denominator, 1.0).run(begin, std::min(size, count - begin));
}

// Results lie in what travels for the first slice.
void NetworkReduction::spread(std::uint32_t piece, std::int64_t chunk) const {
  const Block block = block_at(reduction_->cut(), piece, chunk);
  if (block.count == 0) return;
  const std::size_t element = reduction_->element();
  const std::byte* const from = reduction_->travelling(0) + static_cast<std::size_t>(block.begin) * element;
  if (staging_.empty()) {
    for (std::size_t i = 1; i < request_.slices.size(); ++i)
      std::memcpy(reduction_->travelling(i) + static_cast<std::size_t>(block.begin) * element, from,
                  static_cast<std::size_t>(block.count) * element);
    return;
  }
  with_short_type(staging_.front().dtype(), [&]<class T>(std::type_identity<T>) {
    const T* const results = reinterpret_cast<const T*>(from);
    for (const AllReduceSlice& slice : request_.slices) {
      float* const to = reinterpret_cast<float*>(slice.gradient.raw_data()) + block.begin;
      for (std::int64_t e = 0; e < block.count; ++e) to[e] = static_cast<float>(results[e]);
    }
  });
}

void NetworkReduction::drop_chunks() noexcept {
  request_.slices.clear();
  staging_.clear();
  NetworkTask::drop_chunks();
}

}  // namespace tutti
