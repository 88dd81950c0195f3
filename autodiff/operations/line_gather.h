// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tensor.h>
#include <tutti/backend/calls/kernel_arguments.h>

#include <cstddef>

namespace tutti {

// gather, scatter_add and scatter at places (i64) that count from the front alone: a negative one is out of range.
Tensor gather_places(const Tensor& input, std::int64_t axis, const Tensor& places);
Tensor scatter_add_places(const Shape& shape, const Tensor& updates, std::int64_t axis, const Tensor& places);
Tensor scatter_places(const Tensor& x, std::int64_t axis, const Tensor& places, const Tensor& updates,
                      Scatter kind = Scatter::set);

/// Indices of an axis of that length as places: i64, negative ones counted from the back. DTypeError unless they are
/// integers.
Tensor places_of(std::string_view operation, const Tensor& indices, std::int64_t length);

/// The elements of an axis at places (i64), not negative; the places' axes stand in its place. Of each line along the
/// axis by itself: x is copied only if it is not contiguous, and on the CPU lines are shared among threads.
Tensor gather_lines(const Tensor& x, std::size_t axis, const Tensor& places);

}  // namespace tutti
