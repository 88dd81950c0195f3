// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>
#include <tutti/backend/cuda/kernels/reduce.h>

namespace tutti {

/// How to reduce `input` to `output`, which has length 1 on the axes that are reduced. Neighbouring axes are joined
/// where they are alike. Throws ShapeError for more axes that cannot be joined than kernels take.
cuda_kernels::ReduceShape reduce_shape(const Array& input, const Array& output);

}  // namespace tutti
