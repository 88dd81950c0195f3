// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cuda/kernels/parts/index_fault.h>
#include <tutti/backend/cuda/kernels/parts/strided_axes.h>

namespace tutti::cuda_kernels {

/// Pairs the elements of an index array with those that they select along one axis of another array, which is
/// contiguous. `scatter` takes contiguous indices alone.
struct Selection {
  StridedAxes axes;          // the index's; `from`: strides of the selected array, 0 along the axis; `to`: of the index
  std::int64_t size;         // number of the index's elements
  std::int64_t length;       // length of the axis, in the index
  std::int64_t inner;        // distance of the index's neighbours along the axis
  std::int64_t axis;         // number of the axis, for messages
  std::int64_t axis_length;  // length of the axis, in the selected array
  std::int64_t axis_stride;  // stride of the axis, in the selected array

  /// Lines of the index along the axis. Elements of different lines never select the same.
  TUTTI_HOST_DEVICE std::int64_t lines() const { return size / length; }
  /// Element `position` of a line.
  TUTTI_HOST_DEVICE std::int64_t element(std::int64_t line, std::int64_t position) const {
    const Division at = divide(line, inner);
    return (at.quotient * length + position) * inner + at.remainder;
  }
  TUTTI_HOST_DEVICE bool in_range(std::int64_t index) const { return index >= 0 && index < axis_length; }
  /// Place in the selected array that element `i` of the index, `index`, selects.
  TUTTI_HOST_DEVICE std::int64_t place(std::int64_t i, std::int64_t index) const {
    return axes.offsets(i).from + index * axis_stride;
  }
  TUTTI_HOST_DEVICE void report(IndexFault* fault, IndexFault::Operation operation, std::int64_t index) const {
    fault->index = index;
    fault->axis = axis;
    fault->length = axis_length;
    fault->operation = operation;
  }
};

}  // namespace tutti::cuda_kernels
