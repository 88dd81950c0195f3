// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tensor.h>

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

namespace tutti {

/// How many steps of each padded sequence of a batch count, in any order: {5, 2, 3}, a vector of integers, or a tensor
/// [batch] of integers, which is read on the host. Made of nothing: all steps count.
class SequenceLengths {
 public:
  SequenceLengths() = default;
  SequenceLengths(std::initializer_list<std::int64_t> lengths) : given_(true), values_(lengths) {}
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  SequenceLengths(const std::vector<T>& lengths) : given_(true), values_(lengths.begin(), lengths.end()) {}  // NOLINT
  /// Waits for the tensor. ShapeError for other than one axis, DTypeError for what is no integer.
  SequenceLengths(const Tensor& lengths);  // NOLINT: conversions are the point

  /// True if any sequence ends before `time`. ShapeError, naming the network, unless there is a length for each of
  /// `batch` sequences, from 1 to `time`.
  bool any_shorter(std::string_view network, std::int64_t time, std::int64_t batch) const;
  const std::vector<std::int64_t>& values() const noexcept { return values_; }

 private:
  bool given_ = false;
  std::vector<std::int64_t> values_;
};

}  // namespace tutti
