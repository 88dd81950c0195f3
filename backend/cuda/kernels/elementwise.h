// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cuda/element_layout.h>
#include <tutti/backend/elementwise/formulas.h>

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tutti::cuda_kernels {

using ElementwiseLauncher = void (*)(cudaStream_t, const ElementwiseCall&, const ElementBatch&);
using ElementwiseLaunchers = elementwise::Table<ElementwiseLauncher>;

/// Defined in elementwise_f32.cu, elementwise_f64.cu and elementwise_integers.cu.
template <class T> const ElementwiseLaunchers& elementwise_launchers();
template <> const ElementwiseLaunchers& elementwise_launchers<float>();
template <> const ElementwiseLaunchers& elementwise_launchers<double>();
template <> const ElementwiseLaunchers& elementwise_launchers<std::int32_t>();
template <> const ElementwiseLaunchers& elementwise_launchers<std::int64_t>();
template <> const ElementwiseLaunchers& elementwise_launchers<bool>();

}  // namespace tutti::cuda_kernels
