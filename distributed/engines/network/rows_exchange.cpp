// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/network/rows_exchange.h>

#include <tutti/backend/raise.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

namespace tutti {

namespace {

std::unique_ptr<std::byte[]> memory_of(std::size_t bytes, const Announcement& request) {
  try {
    return std::make_unique_for_overwrite<std::byte[]>(bytes);
  } catch (const std::bad_alloc&) {
    raise<OutOfMemoryError>("[network] no memory for {} bytes of rows of parameter \"{}\"", bytes, request.name);
  }
}

}  // namespace

RowsExchange::RowsExchange(std::uint32_t number, Announcement announcement, std::size_t processes, PackedRows packed,
                           std::size_t piece_bytes)
    : NetworkExchange(Sequence::round, number, std::move(announcement), processes, 1, true),
      packed_(std::move(packed)),
      piece_bytes_(piece_bytes),
      rows_(processes) {}

// Of what was checked: no sum overflows.
std::size_t RowsExchange::bytes_of(const Announcement& announcement) const {
  std::size_t bytes = 0;
  for (std::uint32_t i = 0; i < announcement.slices; ++i)
    bytes += packed_.bytes_of(static_cast<std::int64_t>(announcement.slice[i].rows));
  return bytes;
}

// Who has no rows sends one empty piece. 16 blocks of a little more than 1 TiB in pieces of 8 KiB: 2^31.
std::uint32_t RowsExchange::pieces_of(const Announcement& announcement) const {
  return static_cast<std::uint32_t>(
      std::max<std::size_t>(1, (bytes_of(announcement) + piece_bytes_ - 1) / piece_bytes_));
}

std::size_t RowsExchange::length(const Announcement& announcement, std::size_t piece) const {
  return std::min(piece_bytes_, bytes_of(announcement) - piece * piece_bytes_);
}

void RowsExchange::fill(std::span<const SparseReduction::Contribution> contributions, int rank) {
  Announcement& own = own_announcement();
  for (std::size_t i = 0; i < contributions.size(); ++i) {
    own.slice[i].rows = static_cast<std::uint64_t>(PackedRows::count_of(contributions[i].parts));
    packed_.check(rank, contributions[i].number, own.slice[i].rows);
  }
  own_ = {memory_of(bytes_of(own), own), bytes_of(own)};
  std::byte* block = own_.data.get();
  for (const SparseReduction::Contribution& contribution : contributions) {
    packed_.pack(contribution.parts, block);
    block += packed_.bytes_of(PackedRows::count_of(contribution.parts));
  }
  pieces_out_.store(pieces_of(own), std::memory_order_release);
}

std::vector<SparseReduction::Contribution> RowsExchange::contributions_of(std::size_t place) const {
  std::vector<SparseReduction::Contribution> contributions;
  const Announcement& theirs = peer(place).theirs;
  std::byte* block = rows_[place].data.get();
  for (std::uint32_t i = 0; i < theirs.slices; ++i) {
    const auto count = static_cast<std::int64_t>(theirs.slice[i].rows);
    contributions.push_back(packed_.contribution(theirs.slice[i].number, count, block));
    block += packed_.bytes_of(count);
  }
  return contributions;
}

void RowsExchange::drop() noexcept {
  rows_.clear();
  own_ = {};
}

std::uint32_t RowsExchange::pieces_from(std::size_t place) const noexcept {
  const Peer& from = peer(place);
  if (!from.announced.load(std::memory_order_seq_cst)) return std::numeric_limits<std::uint32_t>::max();
  return pieces_of(from.theirs);
}

std::size_t RowsExchange::bytes_from(std::size_t place, std::size_t piece) const {
  return length(peer(place).theirs, piece);
}

std::byte* RowsExchange::memory_for(std::size_t place, std::size_t piece) {
  Rows& rows = rows_[place];
  const std::size_t begin = piece * piece_bytes_;
  const std::size_t end = begin + bytes_from(place, piece);
  if (end > rows.bytes) {
    const std::size_t bytes = std::min(bytes_of(peer(place).theirs), std::max(end, 2 * rows.bytes));
    Rows larger{memory_of(bytes, announcement()), bytes};
    if (begin > 0) std::memcpy(larger.data.get(), rows.data.get(), begin);
    rows = std::move(larger);
  }
  return rows.data.get() + begin;
}

void RowsExchange::check(const Announcement& theirs, int rank) const {
  for (std::uint32_t i = 0; i < theirs.slices; ++i) packed_.check(rank, theirs.slice[i].number, theirs.slice[i].rows);
}

std::vector<std::span<const std::byte>> RowsExchange::slices_for(std::size_t, std::size_t piece) const {
  return {{own_.data.get() + piece * piece_bytes_, length(announcement(), piece)}};
}

}  // namespace tutti
