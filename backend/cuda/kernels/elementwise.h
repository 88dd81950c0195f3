// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cuda/kernels/parts/element_layout.h>
#include <tutti/backend/dtype.h>
#include <tutti/backend/elementwise/formulas.h>

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tutti::cuda_kernels {

using ElementwiseLauncher = void (*)(cudaStream_t, const ElementwiseCall&, const ElementBatch&);
using ElementwiseLaunchers = elementwise::Table<ElementwiseLauncher>;

/// Defined in the file named after the type: elementwise_f32.cu and so on.
template <class T> const ElementwiseLaunchers& elementwise_launchers();
template <> const ElementwiseLaunchers& elementwise_launchers<float>();
template <> const ElementwiseLaunchers& elementwise_launchers<double>();
template <> const ElementwiseLaunchers& elementwise_launchers<BFloat16>();
template <> const ElementwiseLaunchers& elementwise_launchers<Float16>();
template <> const ElementwiseLaunchers& elementwise_launchers<std::int32_t>();
template <> const ElementwiseLaunchers& elementwise_launchers<std::int64_t>();
template <> const ElementwiseLaunchers& elementwise_launchers<bool>();

}  // namespace tutti::cuda_kernels
