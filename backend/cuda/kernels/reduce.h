// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cuda/kernels/line_layout.h>
#include <tutti/backend/dtype.h>
#include <tutti/backend/kernel_arguments.h>

#include <cuda_runtime_api.h>

namespace tutti::cuda_kernels {

/// A reduction as kernels take it: a line of `length` elements, spread over the axes `reduced`, for each of `outputs`,
/// spread over the axes `kept`. Long lines are cut into segments, by sizes alone, so that results are the same on every
/// run and device; their results, side by side for each output, are reduced in turn.
struct ReduceShape {
  StridedAxes kept;     // from: of the input, to: of the output
  StridedAxes reduced;  // to: 0
  std::int64_t outputs;
  std::int64_t length;
  std::int64_t segment;  // elements
  std::int64_t segments;
  bool in_quads;  // four elements that follow each other lie together, aligned to 16 bytes
  LineLayout layout;

  std::int64_t partial_bytes() const { return segments == 1 ? 0 : outputs * segments * 8; }  ///< of workspace
};

void launch_reduce(cudaStream_t, Reduction, DType, const ReduceShape&, const void* from, void* to, void* partial);

}  // namespace tutti::cuda_kernels
