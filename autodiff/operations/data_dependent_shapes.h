// SPDX-License-Identifier: Apache-2.0
#pragma once

// Results whose shape depends on values. Their length is counted on the device and read on the host: each waits for the
// device once, and a captured step refuses it (docs/captured-steps.md).

#include <tutti/autodiff/tensor.h>

#include <cstdint>

namespace tutti {

/// The elements where the mask is true, row-major, [count]; both are broadcast. The gradient is 0 elsewhere. DTypeError
/// unless the mask is bool; ShapeError if they do not broadcast, DeviceError for two devices.
Tensor masked_select(const Tensor&, const Tensor& mask);
/// Positions of the elements that are not 0, row-major: i64 [count, rank], a row for each. NaN counts. No gradient.
Tensor argwhere(const Tensor&);

struct Unique {
  Tensor values;   ///< [count] in the input's dtype, ascending; all NaN are one, the last, and -0 equals 0
  Tensor inverse;  ///< i64 of the input's shape: the place in `values` of each element
  Tensor counts;   ///< i64 [count]: how often each stands in the input
};
/// The different elements of a tensor of any shape. No gradient.
Unique unique(const Tensor&);

/// How often each of 0, 1, ... stands among integers [n]: i64 [length], as long as the largest asks for and at least
/// min_length. DTypeError for what is no integer; ShapeError for another rank, negative numbers and a negative
/// min_length.
Tensor bincount(const Tensor& numbers, std::int64_t min_length = 0);
/// The sums of the weights [n] of each, in their dtype, integers in i64. Each weight's gradient is that of its sum.
/// ShapeError for weights of another shape.
Tensor bincount(const Tensor& numbers, const Tensor& weights, std::int64_t min_length = 0);

/// Each position of the axis as often as the integers [length] say, in a row. ShapeError for a negative one. Gradients
/// of an element add up.
Tensor repeat_interleave(const Tensor&, const Tensor& counts, std::int64_t axis);

}  // namespace tutti
