// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/ledger/shard_plan.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace tutti {

namespace {

constexpr std::int64_t kShardAlignment = 64;  // bytes: a cache line, so that no two devices write the same one

// The end of `member`'s share of `total` elements, without alignment. Written so that nothing overflows.
std::int64_t even_end(std::int64_t total, std::int64_t devices, std::int64_t member) {
  return total / devices * (member + 1) + std::min(total % devices, member + 1);
}

// The cuts between the shares of one dtype's parameters, which follow each other without gaps.
std::vector<std::int64_t> share_ends(std::span<const std::int64_t> sizes, std::int64_t devices, DType dtype) {
  const std::int64_t total = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  const std::int64_t step = kShardAlignment / static_cast<std::int64_t>(size_of(dtype));
  const bool align = total / devices >= 16 * step;  // moves a cut by at most 1/32 of a share
  std::vector<std::int64_t> ends;
  std::int64_t begin = 0;
  std::size_t parameter = 0;
  for (std::int64_t member = 0; member < devices; ++member) {
    std::int64_t end = even_end(total, devices, member);
    while (parameter < sizes.size() && begin + sizes[parameter] <= end) begin += sizes[parameter++];
    if (align && parameter < sizes.size())
      end = begin + std::min((end - begin + step / 2) / step * step, sizes[parameter]);
    ends.push_back(end);
  }
  return ends;
}

}  // namespace

ShardPlan::ShardPlan(std::span<const SyncParameter> parameters, std::size_t devices) : devices_(devices) {
  std::map<DType, std::vector<std::int64_t>> sizes;
  for (const SyncParameter& parameter : parameters) {
    dtypes_.push_back(parameter.dtype);
    sizes_.push_back(element_count(parameter.shape));
    sizes[parameter.dtype].push_back(sizes_.back());
  }
  struct Cursor {
    std::vector<std::int64_t> ends;
    MemberIndex owner = 0;
    std::int64_t position = 0;     // of the next element
    std::int64_t share_begin = 0;  // of the owner
  };
  std::map<DType, Cursor> cursors;
  for (const auto& [dtype, list] : sizes)
    cursors[dtype].ends = share_ends(list, static_cast<std::int64_t>(devices), dtype);
  for (std::uint32_t id = 0; id < sizes_.size(); ++id) {
    first_.push_back(pieces_.size());
    Cursor& cursor = cursors[dtypes_[id]];
    for (std::int64_t begin = 0; begin < sizes_[id];) {
      while (cursor.ends[cursor.owner] == cursor.position) {
        ++cursor.owner;
        cursor.share_begin = cursor.position;
      }
      const std::int64_t count = std::min(sizes_[id] - begin, cursor.ends[cursor.owner] - cursor.position);
      pieces_.push_back({{id}, cursor.owner, begin, begin + count});
      begin += count;
      cursor.position += count;
      progress_.push_back(cursor.position - cursor.share_begin);
    }
  }
  first_.push_back(pieces_.size());
}

std::span<const ShardPlan::Piece> ShardPlan::pieces_of(ParameterId id) const {
  return std::span(pieces_).subspan(first_[id.value], first_[id.value + 1] - first_[id.value]);
}

std::vector<ShardPlan::Piece> ShardPlan::owned_by(MemberIndex member) const {
  std::vector<Piece> owned;
  std::ranges::copy_if(pieces_, std::back_inserter(owned), [&](const Piece& piece) { return piece.owner == member; });
  return owned;
}

std::size_t ShardPlan::bytes(MemberIndex owner) const {
  std::size_t bytes = 0;
  for (const Piece& piece : pieces_)
    if (piece.owner == owner) bytes += static_cast<std::size_t>(piece.size()) * size_of(dtypes_[piece.parameter.value]);
  return bytes;
}

// How far the last of its owners has come when the parameter is complete.
std::int64_t ShardPlan::distance(ParameterId id) const {
  std::int64_t farthest = 0;
  for (std::size_t piece = first_[id.value]; piece < first_[id.value + 1]; ++piece)
    farthest = std::max(farthest, progress_[piece]);
  return farthest;
}

std::vector<std::vector<ParameterId>> ShardPlan::laps(std::size_t bytes) const {
  std::vector<ParameterId> order;
  for (std::uint32_t id = 0; id < sizes_.size(); ++id)
    if (sizes_[id] > 0) order.push_back({id});
  std::ranges::stable_sort(order, {}, [&](ParameterId id) { return std::pair(dtypes_[id.value], distance(id)); });
  std::vector<std::vector<ParameterId>> laps;
  std::size_t filled = 0;
  for (const ParameterId id : order) {
    const DType dtype = dtypes_[id.value];
    const std::size_t size = static_cast<std::size_t>(sizes_[id.value]) * size_of(dtype) / devices_;
    if (laps.empty() || dtypes_[laps.back().front().value] != dtype || filled + size > bytes) {
      laps.emplace_back();
      filled = 0;
    }
    laps.back().push_back(id);
    filled += size;
  }
  return laps;
}

}  // namespace tutti
