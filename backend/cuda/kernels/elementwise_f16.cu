// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/kernels/elementwise_table.cuh>

namespace tutti::cuda_kernels {

template <> const ElementwiseLaunchers& elementwise_launchers<Float16>() {
  static const ElementwiseLaunchers kLaunchers = make_launchers<Float16>();
  return kLaunchers;
}

}  // namespace tutti::cuda_kernels
