// SPDX-License-Identifier: Apache-2.0
#pragma once

// What is in order along one axis: sorting, and sums and products up to each element.

#include <tutti/autodiff/tensor.h>

namespace tutti {

struct Sorted {
  Tensor values;   ///< the input's dtype; the gradient goes back to where each came from
  Tensor indices;  ///< i64: where along the axis
};

/// Equal elements keep the order they have; NaN is greater than any number.
Sorted sort(const Tensor&, std::int64_t axis = -1, bool descending = false);
Tensor argsort(const Tensor&, std::int64_t axis = -1, bool descending = false);  ///< i64, no gradient
/// The `count` largest along the axis, or smallest, in order. ShapeError for more than there are.
Sorted topk(const Tensor&, std::int64_t count, std::int64_t axis = -1, bool largest = true);

/// The sum of each element and all before it. Integers wrap.
Tensor cumsum(const Tensor&, std::int64_t axis);
/// The product of each element and all before it, in log2(length) steps of the whole tensor's size; gradients of every
/// order are right where elements are 0. Integers wrap.
Tensor cumprod(const Tensor&, std::int64_t axis);

}  // namespace tutti
