// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>
#include <tutti/backend/cuda/kernels/parts/line_layout.h>

namespace tutti {
namespace cuda_kernels {

/// A reduction as kernels take it: a line of `length` elements, spread over the axes `reduced`, for each of `outputs`,
/// spread over the axes `kept`. Long lines are cut into segments, by sizes alone, so that results are the same on every
/// run and device; their results, side by side for each output, are reduced in turn.
struct ReduceShape {
  StridedAxes kept;     // strides `from` in the input, `to` in the output
  StridedAxes reduced;  // strides `from` in the input; `to` is 0
  std::int64_t outputs;
  std::int64_t length;
  std::int64_t segment;  // elements
  std::int64_t segments;
  bool in_quads;  // four elements that follow each other lie together, aligned to 16 bytes
  LineLayout layout;

  std::int64_t partial_bytes() const { return segments == 1 ? 0 : outputs * segments * 8; }  ///< size of the workspace
};

}  // namespace cuda_kernels

/// How to reduce `input` to `output`, which has length 1 on the axes that are reduced. Neighbouring axes are joined
/// where they are alike. Throws ShapeError for more axes that cannot be joined than kernels take.
cuda_kernels::ReduceShape reduce_shape(const Array& input, const Array& output);

}  // namespace tutti
