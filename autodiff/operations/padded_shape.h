// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/operations.h>

#include <span>

namespace tutti {

/// The shape with that many more elements before and behind each axis. ShapeError for another number of pairs, for
/// negative widths and for lengths that overflow.
Shape padded_shape(const Shape&, std::span<const Padding> widths);

}  // namespace tutti
