// SPDX-License-Identifier: Apache-2.0
// Sums of 16-bit numbers between devices, in f32.
#include <tutti/distributed/engines/nccl/nccl_collectives.h>

#include <tutti/distributed/engines/nccl/nccl_streams.h>
#include <tutti/distributed/engines/nccl/nccl_task.h>
#include <tutti/distributed/engines/peer/slice_table.h>

#include <algorithm>

namespace tutti {

namespace {

constexpr std::int64_t kLine = 64;  // elements, 128 bytes: shares begin at lines of memory, so that kernels go by lanes
constexpr std::size_t kElementSize = 2;  // bytes

std::size_t bytes_of(std::int64_t elements) { return static_cast<std::size_t>(elements) * kElementSize; }

class NarrowLaunch {
 public:
  NarrowLaunch(const NarrowSum& sum, const NcclStreams& streams, NcclTask& task)
      : sum_(sum), streams_(streams), task_(task) {
    for (std::size_t place = 0; place < sum.values.size(); ++place)
      if (sum.values[place] != nullptr) here_.push_back(place);
  }

  void run() {
    for (const std::size_t place : here_) make_table(place);
    if (sum_.ranks.size() > 1) streams_.together(task_, [this] { collect(); });
    for (std::size_t i = 0; i < here_.size(); ++i)
      if (const std::int64_t size = share_size(rank_at(here_[i])); size > 0)
        streams_.combine(here_[i], sum_.dtype, tables_[i], size, {.denominator = sum_.denominator});
    if (sum_.ranks.size() > 1) streams_.together(task_, [this] { spread(); });
  }

 private:
  std::size_t rank_at(std::size_t place) const { return streams_.group().first_rank() + place; }
  bool contributes(std::size_t rank) const {
    return std::ranges::find(sum_.contributors, rank) != sum_.contributors.end();
  }

  // As even as lines of memory allow.
  std::int64_t share_begin(std::size_t part) const {
    const std::int64_t lines = (sum_.count + kLine - 1) / kLine;
    const auto parts = static_cast<std::int64_t>(sum_.ranks.size());
    return std::min(sum_.count, lines * static_cast<std::int64_t>(part) / parts * kLine);
  }
  std::size_t part_of(std::size_t rank) const {
    return static_cast<std::size_t>(std::ranges::find(sum_.ranks, rank) - sum_.ranks.begin());
  }
  std::int64_t share_size(std::size_t rank) const {
    return share_begin(part_of(rank) + 1) - share_begin(part_of(rank));
  }
  std::byte* share(std::size_t place, std::size_t rank) const {
    return sum_.values[place] + bytes_of(share_begin(part_of(rank)));
  }

  // What is summed at that place: its own numbers where they are, the others' where they will arrive.
  void make_table(std::size_t place) {
    const std::size_t rank = rank_at(place);
    const std::int64_t size = share_size(rank);
    const std::size_t stride = bytes_of((size + kLine - 1) / kLine * kLine);
    const std::size_t others = sum_.contributors.size() - (contributes(rank) ? 1 : 0);
    std::byte* arrives = others > 0 && size > 0 ? streams_.workspace(place, others * stride, task_) : nullptr;
    cuda_kernels::SliceTable table;
    for (std::size_t c = 0; c < sum_.contributors.size(); ++c) {
      const std::size_t contributor = sum_.contributors[c];
      add_source("all_reduce", table, contributor == rank ? share(place, rank) : arrives, sum_.numbers[c]);
      if (contributor != rank && arrives != nullptr) arrives += stride;
    }
    add_target("all_reduce", table, share(place, rank));
    tables_.push_back(table);
  }

  void collect() const {
    for (std::size_t i = 0; i < here_.size(); ++i) {
      const std::size_t rank = rank_at(here_[i]);
      for (const std::size_t other : sum_.ranks)
        if (const std::int64_t size = share_size(other); other != rank && size > 0 && contributes(rank))
          streams_.send(here_[i], share(here_[i], other), bytes_of(size), other);
      const std::int64_t size = share_size(rank);
      for (std::size_t c = 0; c < sum_.contributors.size(); ++c)
        if (sum_.contributors[c] != rank && size > 0)
          streams_.receive(here_[i], const_cast<void*>(tables_[i].source[c]), bytes_of(size), sum_.contributors[c]);
    }
  }

  void spread() const {
    for (const std::size_t place : here_) {
      const std::size_t rank = rank_at(place);
      for (const std::size_t other : sum_.ranks) {
        if (other == rank) continue;
        if (const std::int64_t size = share_size(rank); size > 0)
          streams_.send(place, share(place, rank), bytes_of(size), other);
        if (const std::int64_t size = share_size(other); size > 0)
          streams_.receive(place, share(place, other), bytes_of(size), other);
      }
    }
  }

  const NarrowSum& sum_;
  const NcclStreams& streams_;
  NcclTask& task_;
  std::vector<std::size_t> here_;                 // places that take part
  std::vector<cuda_kernels::SliceTable> tables_;  // of them
};

}  // namespace

void sum_narrow(const NarrowSum& sum, const NcclStreams& streams, NcclTask& task) {
  if (sum.count > 0) NarrowLaunch(sum, streams, task).run();
}

}  // namespace tutti
