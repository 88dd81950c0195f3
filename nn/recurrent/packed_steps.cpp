// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/recurrent/packed_steps.h>

#include <tutti/autodiff/operations.h>

#include <algorithm>
#include <numeric>

namespace tutti {

PackedSteps::PackedSteps(const std::vector<std::int64_t>& lengths, std::int64_t time, Device device)
    : time_(time), batch_(std::ssize(lengths)), order_(lengths.size()), place_(lengths.size()) {
  std::iota(order_.begin(), order_.end(), 0);
  const auto length = [&](std::int64_t sequence) { return lengths[static_cast<std::size_t>(sequence)]; };
  std::ranges::stable_sort(order_, std::greater(), length);
  for (std::size_t i = 0; i < order_.size(); ++i)
    place_[static_cast<std::size_t>(order_[i])] = static_cast<std::int64_t>(i);

  std::vector<std::int64_t> rows;
  std::vector<std::int64_t> place_of(static_cast<std::size_t>(time * batch_),
                                     std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}));
  for (std::int64_t step = 0; step < length(order_.front()); ++step) {
    std::int64_t count = 0;
    for (; count < batch_ && length(order_[static_cast<std::size_t>(count)]) > step; ++count) {
      const std::int64_t row = step * batch_ + order_[static_cast<std::size_t>(count)];
      place_of[static_cast<std::size_t>(row)] = std::ssize(rows);
      rows.push_back(row);
    }
    counts_.push_back(count);
  }
  rows_ = tensor(rows, {.device = device});
  place_of_ = tensor(place_of, {.device = device});
}

Tensor PackedSteps::pack(const Tensor& x) const { return embedding(reshape(x, {time_ * batch_, x.length(2)}), rows_); }

Tensor PackedSteps::unpack(const Tensor& packed) const {
  const Tensor behind = zeros({1, packed.length(1)}, {.dtype = packed.dtype(), .device = packed.device()});
  return reshape(embedding(concatenate({packed, behind}), place_of_), {time_, batch_, packed.length(1)});
}

Tensor PackedSteps::in_order(const Tensor& states, const std::vector<std::int64_t>& order) const {
  if (std::ranges::is_sorted(order)) return states;
  return take(states, tensor(order, {.device = states.device()}), -2);
}

}  // namespace tutti
