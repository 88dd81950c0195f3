// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tensor.h>
#include <tutti/backend/memory/thread_cache.h>

#include <cstdint>
#include <vector>

namespace tutti {

/// Places of the steps of sequences of several lengths when their padding is left out: one matrix of rows, first those
/// of step 0, the longest sequence's first, then those of step 1, ... The sequences of a step are the first ones of the
/// step before, so that a step needs no mask.
class PackedSteps {
 public:
  /// Takes the lengths of a batch of one sequence or more, each from 1 to `time`.
  PackedSteps(const std::vector<std::int64_t>& lengths, std::int64_t time, Device);

  Tensor pack(const Tensor& x) const;         ///< [time, batch, columns] -> [rows, columns]
  Tensor unpack(const Tensor& packed) const;  ///< the inverse, with zeros behind each sequence's end
  /// [..., batch, columns], sequences in order of length, the longest first; and back.
  Tensor by_length(const Tensor& states) const { return in_order(states, order_); }
  Tensor as_given(const Tensor& states) const { return in_order(states, place_); }

  /// How many sequences have step 0, 1, ...: as many numbers as the longest has steps, never ascending.
  const CachedVector<std::int64_t>& counts() const noexcept { return counts_; }

 private:
  Tensor in_order(const Tensor& states, const std::vector<std::int64_t>& order) const;

  std::int64_t time_;
  std::int64_t batch_;
  std::vector<std::int64_t> order_;    // sequence by place
  std::vector<std::int64_t> place_;    // place by sequence
  CachedVector<std::int64_t> counts_;  // number of sequences, by step
  Tensor rows_;                        // [rows]: which of the time * batch each is
  Tensor place_of_;                    // [time * batch]: its row, or the one behind the last
};

}  // namespace tutti
