// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/dtype.h>
#include <tutti/distributed/engines/network/lines/network_exchange.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tutti {

/// Elements of an all-reduce: each process sums a share of them, in pieces, and gives it to the others; or, where it is
/// no longer than a piece, of two processes each sums all, which spares them the second exchange. The same for all
/// processes, as it depends on what they agree on alone.
struct ShareCut {
  /// `most_slices`: of any process; `element`: bytes of one as it travels.
  ShareCut(std::int64_t elements, std::size_t processes, std::size_t element, std::size_t piece_bytes,
           std::size_t most_slices);

  bool is_divided() const noexcept { return shares > 1; }
  std::int64_t begin(std::size_t place, std::size_t piece) const;  ///< first element
  std::int64_t count(std::size_t place, std::size_t piece) const;  ///< number of elements, which may be 0

  std::int64_t elements;
  std::size_t shares;    ///< number of them: one of each process, or one of all
  std::int64_t share;    ///< elements of one
  std::int64_t length;   ///< elements of a piece
  std::uint32_t pieces;  ///< number of them of each share, one or more
};

/// An all-reduce as the lines see it.
class ReductionExchange final : public NetworkExchange {
 public:
  /// `travelling`: one array for each own slice, as the announcement has them; results go to the first.
  ReductionExchange(std::uint32_t number, Announcement, std::size_t processes, std::size_t place, ShareCut,
                    std::size_t element, std::vector<std::byte*> travelling);

  const ShareCut& cut() const noexcept { return cut_; }
  std::size_t element() const noexcept { return element_; }  ///< bytes of one that travels
  std::byte* travelling(std::size_t slice) const { return travelling_[slice]; }

  std::size_t bytes_from(std::size_t place, std::size_t piece) const override;
  std::vector<std::span<const std::byte>> slices_for(std::size_t place, std::size_t piece) const override;
  std::span<std::byte> results_of(std::size_t place, std::size_t piece) const override;

 private:
  std::size_t bytes_of(std::size_t place, std::size_t piece) const;

  std::size_t place_;
  ShareCut cut_;
  std::size_t element_;
  std::vector<std::byte*> travelling_;
};

/// How many slices of an announcement contribute.
std::size_t contributing(const Announcement&);

}  // namespace tutti
