// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/operations/elementwise_kernels.h>

namespace tutti {

template <> const ElementwiseKernels& elementwise_kernels<double>() {
  static constexpr ElementwiseKernels kKernels = elementwise_kernel::all<double>();
  return kKernels;
}

}  // namespace tutti
