// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>
#include <tutti/backend/cuda/kernels/selection.h>

namespace tutti {

/// How the contiguous `index` selects along `axis` of a contiguous array of shape `selected`. Throws ShapeError naming
/// the operation when the shapes differ in more axes than kernels take.
cuda_kernels::Selection selection_of(std::string_view operation, const Shape& selected, const Shape& index,
                                     std::size_t axis);

}  // namespace tutti
