// SPDX-License-Identifier: Apache-2.0
#pragma once

// What is in order along one axis: sorting, and sums and products up to each element. Shapes stay, but topk's.

#include <tutti/autodiff/tensor.h>

#include <concepts>

namespace tutti {

struct Sorted {
  Tensor values;   ///< the input's dtype; the gradient goes back to where each came from
  Tensor indices;  ///< i64: where along the axis
};

/// Equal elements keep the order they have; NaN is greater than any number.
Sorted sort(const Tensor&, std::int64_t axis = -1, bool descending = false);
/// The places along the axis of what `sort` gives: i64, of x's shape. No gradient.
Tensor argsort(const Tensor&, std::int64_t axis = -1, bool descending = false);
/// The first `count` of the axis when sorted: the largest, from the largest on, or the smallest. Of equals those that
/// come first. ShapeError for more than there are, and for a negative count.
Sorted topk(const Tensor&, std::int64_t count, std::int64_t axis = -1, bool largest = true);
// A bool is no axis.
template <std::same_as<bool> B> Sorted sort(const Tensor&, B descending) = delete;
template <std::same_as<bool> B> Tensor argsort(const Tensor&, B descending) = delete;
template <std::same_as<bool> B> Sorted topk(const Tensor&, std::int64_t count, B largest) = delete;

/// The sum of each element and all before it, added in f64 for floating types and rounded to x's. Integers and bool
/// give i64. The gradient is the sum of dy at each element and all behind it.
Tensor cumsum(const Tensor&, std::int64_t axis);
/// The product of each element and all before it, in log2(length) steps of the whole tensor's size; gradients of every
/// order are right where elements are 0. Integers and bool give i64.
Tensor cumprod(const Tensor&, std::int64_t axis);

}  // namespace tutti
