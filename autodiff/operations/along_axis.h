// SPDX-License-Identifier: Apache-2.0
#pragma once

// Operations on what is in order along one axis: sorting, searching, and sums, products and extremes up to each
// element. Shapes stay, but topk's.

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

struct RunningExtremes {
  Tensor values;   ///< the input's dtype and shape; the gradient goes back to where each came from
  Tensor indices;  ///< i64: where along the axis, the last of equals
};
/// The largest (smallest) of each element and all before it. NaN wins.
RunningExtremes cummax(const Tensor&, std::int64_t axis);
RunningExtremes cummin(const Tensor&, std::int64_t axis);
/// log of the sum of exp(x) of each element and all before it, without overflow, in log2(length) steps of the whole
/// tensor's size. Integers give f32; bf16 and f16 are added in f32.
Tensor logcumsumexp(const Tensor&, std::int64_t axis);

/// How many elements of the sorted last axis come before each value: the place, i64 of the values' shape, where it
/// would be put in, before its equals or, `right`, behind them. The sorted tensor is [n], for values of any shape, or
/// has the values' other axes. As sort has it NaN is greater than any number. Both are promoted. Not checked to be
/// sorted. ShapeError for a sorted scalar, and for other axes that differ. No gradient.
Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right = false);

}  // namespace tutti
