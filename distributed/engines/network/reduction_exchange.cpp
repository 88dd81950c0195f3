// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/network/reduction_exchange.h>

#include <algorithm>
#include <utility>

namespace tutti {

namespace {

constexpr std::int64_t kAlignment = 64;  // elements: shares and pieces begin at cache lines, whatever the type

// What two processes send in one piece each sums as a whole.
std::size_t shares_of(std::size_t bytes, std::size_t processes, std::size_t piece_bytes) {
  return processes == 2 && bytes <= piece_bytes ? 1 : processes;
}

std::int64_t whole(std::int64_t count) { return (count + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

ShareCut::ShareCut(std::int64_t all, std::size_t processes, std::size_t element, std::size_t piece_bytes,
                   std::size_t most_slices)
    : elements(all),
      shares(shares_of(static_cast<std::size_t>(all) * element * most_slices, processes, piece_bytes)),
      share(whole((all + static_cast<std::int64_t>(shares) - 1) / static_cast<std::int64_t>(shares))),
      length(static_cast<std::int64_t>(piece_bytes / most_slices / element) / kAlignment * kAlignment),
      pieces(static_cast<std::uint32_t>(std::max<std::int64_t>(1, (share + length - 1) / length))) {}

std::int64_t ShareCut::begin(std::size_t place, std::size_t piece) const {
  return std::min(elements,
                  static_cast<std::int64_t>(place % shares) * share + static_cast<std::int64_t>(piece) * length);
}
std::int64_t ShareCut::count(std::size_t place, std::size_t piece) const {
  const std::int64_t end = std::min(elements, static_cast<std::int64_t>(place % shares + 1) * share);
  return std::max<std::int64_t>(0, std::min(length, end - begin(place, piece)));
}

std::size_t contributing(const Announcement& announcement) {
  return static_cast<std::size_t>(std::count_if(announcement.slice, announcement.slice + announcement.slices,
                                                [](const auto& slice) { return slice.contributes; }));
}

ReductionExchange::ReductionExchange(std::uint32_t number, Announcement announcement, std::size_t processes,
                                     std::size_t place, ShareCut cut, std::size_t element,
                                     std::vector<std::byte*> travelling)
    : NetworkExchange(Sequence::round, number, std::move(announcement), processes, cut.pieces, cut.is_divided()),
      place_(place),
      cut_(cut),
      element_(element),
      travelling_(std::move(travelling)) {}

std::size_t ReductionExchange::bytes_of(std::size_t place, std::size_t piece) const {
  return static_cast<std::size_t>(cut_.count(place, piece)) * element_;
}

std::size_t ReductionExchange::bytes_from(std::size_t place, std::size_t piece) const {
  return contributing(peer(place).theirs) * bytes_of(place_, piece);
}

std::vector<std::span<const std::byte>> ReductionExchange::slices_for(std::size_t place, std::size_t piece) const {
  std::vector<std::span<const std::byte>> slices;
  const auto offset = static_cast<std::size_t>(cut_.begin(place, piece)) * element_;
  for (std::size_t i = 0; i < travelling_.size(); ++i)
    if (announcement().slice[i].contributes) slices.emplace_back(travelling_[i] + offset, bytes_of(place, piece));
  return slices;
}

std::span<std::byte> ReductionExchange::results_of(std::size_t place, std::size_t piece) const {
  return {travelling_.front() + static_cast<std::size_t>(cut_.begin(place, piece)) * element_, bytes_of(place, piece)};
}

}  // namespace tutti
