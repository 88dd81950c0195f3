// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tensor.h>
#include <tutti/backend/memory/thread_cache.h>

#include <cstdint>

namespace tutti {

/// The elements of an array that a view shows: one entry for each axis of the result, by the axis of the array that it
/// runs along, and the positions of the axes that it leaves out. No element twice, but where `of` alone is called.
struct StridedView {
  static constexpr std::int64_t kNewAxis = -1;
  struct Axis {
    std::int64_t length;
    std::int64_t step = 1;
    std::int64_t along = kNewAxis;      ///< axis of the array
    std::int64_t along_too = kNewAxis;  ///< a second one, with the same positions: a diagonal
  };
  CachedVector<Axis> axes;
  CachedVector<std::int64_t> first;  ///< beginning of the view, for each axis of the array

  Array of(const Array&) const;
};

/// The view, recorded under `operation`: its gradient is dy among zeros.
Tensor take_view(std::string_view operation, const Tensor&, const StridedView&);

/// Zeros of `shape` with `x` where the view shows them; the gradient of take_view, whose gradient is take_view.
Tensor put_view(std::string_view operation, const Tensor& x, const Shape& shape, const StridedView&);

}  // namespace tutti
