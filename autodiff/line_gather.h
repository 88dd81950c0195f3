// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tensor.h>

#include <cstddef>

namespace tutti {

/// The elements of an axis at places (i64), not negative; the places' axes stand in its place. Of each line along the
/// axis by itself: x is copied only if it is not contiguous, and on the CPU lines are shared among threads.
Tensor gather_lines(const Tensor& x, std::size_t axis, const Tensor& places);

}  // namespace tutti
