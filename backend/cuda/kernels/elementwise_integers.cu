// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/kernels/elementwise_table.cuh>

namespace tutti::cuda_kernels {

template <> const ElementwiseLaunchers& elementwise_launchers<std::int32_t>() {
  static const ElementwiseLaunchers kLaunchers = make_launchers<std::int32_t>();
  return kLaunchers;
}

template <> const ElementwiseLaunchers& elementwise_launchers<std::int64_t>() {
  static const ElementwiseLaunchers kLaunchers = make_launchers<std::int64_t>();
  return kLaunchers;
}

template <> const ElementwiseLaunchers& elementwise_launchers<bool>() {
  static const ElementwiseLaunchers kLaunchers = make_launchers<bool>();
  return kLaunchers;
}

}  // namespace tutti::cuda_kernels
