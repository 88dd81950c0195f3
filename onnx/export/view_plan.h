// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/shape.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace tutti::onnx {

/// Part of a row-major array: along each axis `lengths` elements from `begins` on, `steps` apart.
struct Box {
  Shape of;  ///< shape of the array
  Dims begins;
  Dims lengths;
  Dims steps;
};

/// A view of row-major elements: a box of them, its axes moved, then reshaped to the view's shape.
struct ViewPlan {
  Box box;
  std::vector<std::int64_t> permutation;  ///< axes of the box, in the order of the view's
};

/// How to make a view, of no stride below 1 on axes longer than 1, from `size` elements. `known` is a shape that they
/// have, which is taken where it serves. None: the view is no box, as a diagonal, or windows that overlap.
std::optional<ViewPlan> plan_view(const Shape& known, std::int64_t size, std::int64_t offset, const Shape&,
                                  const Strides&);

/// The shape in which all of these strides (of axes longer than 1) are those of axes of a row-major array of so many
/// elements; none: there is no such shape.
std::optional<Shape> common_shape(std::vector<std::int64_t> strides, std::int64_t size);

/// The plan in a given shape.
std::optional<ViewPlan> plan_view_in(const Shape& shape, std::int64_t offset, const Shape&, const Strides&);

/// A view that is no box: `box`, whose last axis is whole, of the axes with the largest strides, and then the elements
/// at `positions` of that last axis for each, in the shape `inner`.
struct ScatteredPlan {
  Box box;
  std::vector<std::int64_t> outer_axes;  ///< axes of the view that the box has, in its order
  std::vector<std::int64_t> inner_axes;  ///< the others
  Shape inner;
  std::vector<std::int64_t> positions;
};
ScatteredPlan plan_scattered(std::int64_t size, std::int64_t offset, const Shape&, const Strides&);

}  // namespace tutti::onnx
