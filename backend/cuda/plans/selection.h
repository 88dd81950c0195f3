// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>
#include <tutti/backend/cuda/kernels/parts/selection.h>

namespace tutti {

/// How an index of these lengths and strides selects along `axis` of a contiguous array of shape `selected`. Throws
/// ShapeError naming the operation when they differ in more axes than kernels take.
cuda_kernels::Selection selection_of(std::string_view operation, const Shape& selected, const Shape& index,
                                     const Strides& index_strides, std::size_t axis);
/// The same of a contiguous index.
cuda_kernels::Selection selection_of(std::string_view operation, const Shape& selected, const Shape& index,
                                     std::size_t axis);

}  // namespace tutti
