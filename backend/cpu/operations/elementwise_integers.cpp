// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/operations/elementwise_kernels.h>

namespace tutti {

template <> const ElementwiseKernels& elementwise_kernels<std::int32_t>() {
  static constexpr ElementwiseKernels kKernels = elementwise_kernel::all<std::int32_t>();
  return kKernels;
}

template <> const ElementwiseKernels& elementwise_kernels<std::int64_t>() {
  static constexpr ElementwiseKernels kKernels = elementwise_kernel::all<std::int64_t>();
  return kKernels;
}

template <> const ElementwiseKernels& elementwise_kernels<bool>() {
  static constexpr ElementwiseKernels kKernels = elementwise_kernel::all<bool>();
  return kKernels;
}

}  // namespace tutti
