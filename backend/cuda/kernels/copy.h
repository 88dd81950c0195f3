// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cuda/kernels/parts/element_layout.h>
#include <tutti/backend/cuda/kernels/parts/tile_layout.h>
#include <tutti/backend/dtype.h>

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tutti::cuda_kernels {

// These move bits: they know elements by their size, 1, 2, 4 or 8 bytes.

void launch_copy(cudaStream_t, std::size_t element_bytes, const ElementBatch&);
void launch_transpose(cudaStream_t, std::size_t element_bytes, const TileLayout&, std::byte* target,
                      const std::byte* source);
/// `element`: the bits of one, in the lowest bytes.
void launch_fill(cudaStream_t, std::size_t element_bytes, std::uint64_t element, const ElementBatch&);
/// first, first + step, ...
void launch_arange(cudaStream_t, DType, void* to, std::int64_t count, std::int64_t first, std::int64_t step);
/// Inputs: a mask of bool, and two of the output's type.
void launch_where(cudaStream_t, std::size_t element_bytes, const ElementBatch&);

/// Casts from a type that others are computed in to any, or from a narrow type to the one that it is computed in.
void launch_cast(cudaStream_t, DType from, DType to, const ElementBatch&);

}  // namespace tutti::cuda_kernels
