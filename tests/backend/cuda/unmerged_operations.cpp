// SPDX-License-Identifier: Apache-2.0
// Operations of the CUDA backend that are not written yet, so that what is there can be linked. Each gives way to the
// real one; the file goes with the last.
#include <tutti/backend/cuda/cuda_backend.h>

#include <tutti/backend/error.h>

namespace tutti {

#define TUTTI_UNMERGED(operation, ...) \
  __attribute__((weak)) void CudaBackend::operation(__VA_ARGS__) { raise("[{}] is not written", #operation); }

TUTTI_UNMERGED(copy, const Array&, const Array&)
TUTTI_UNMERGED(cast, const Array&, const Array&)
TUTTI_UNMERGED(fill, const Array&, Scalar)
TUTTI_UNMERGED(elementwise, const ElementwiseCall&, std::span<const Array>, const Array&)
TUTTI_UNMERGED(where, const Array&, const Array&, const Array&, const Array&)
TUTTI_UNMERGED(reduce, Reduction, const Array&, const Array&)
TUTTI_UNMERGED(arg_reduce, ArgReduction, const Array&, std::size_t, const Array&)
TUTTI_UNMERGED(matmul, const Array&, const Array&, const Array&)
TUTTI_UNMERGED(softmax, SoftmaxKind, const Array&, std::size_t, const Array&)
TUTTI_UNMERGED(softmax_gradient, SoftmaxKind, const Array&, const Array&, std::size_t, const Array&)
TUTTI_UNMERGED(gather, const Array&, std::size_t, const Array&, const Array&)
TUTTI_UNMERGED(scatter_add, const Array&, std::size_t, const Array&, const Array&)
TUTTI_UNMERGED(conv2d, const Conv2dGeometry&, const Array&, const Array&, const Array&)
TUTTI_UNMERGED(conv2d_input_gradient, const Conv2dGeometry&, const Array&, const Array&, const Array&)
TUTTI_UNMERGED(conv2d_weight_gradient, const Conv2dGeometry&, const Array&, const Array&, const Array&)
TUTTI_UNMERGED(max_pool2d, const Pool2dGeometry&, const Array&, const Array&, const Array&)
TUTTI_UNMERGED(max_pool2d_gradient, const Pool2dGeometry&, const Array&, const Array&, const Array&)
TUTTI_UNMERGED(random, const RandomCall&, const Array&)
TUTTI_UNMERGED(sgd_step, const SgdStep&, const Array&, const Array&, const Array&)
TUTTI_UNMERGED(adamw_step, const AdamWStep&, const Array&, const Array&, const Array&, const Array&)

}  // namespace tutti
