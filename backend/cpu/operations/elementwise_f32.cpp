// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/operations/elementwise_kernels.h>

namespace tutti {

template <> const ElementwiseKernels& elementwise_kernels<float>() {
  static constexpr ElementwiseKernels kKernels = elementwise_kernel::all<float>();
  return kKernels;
}

}  // namespace tutti
