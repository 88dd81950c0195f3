// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/dtype.h>
#include <tutti/backend/numbers/short_float.h>

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tutti::cuda_kernels {

// Gradients of f32 on their way between devices in 16 bits: the two halves of TravelledSum
// (backend/formulas/slice_formulas.h), for an engine whose kernels do not reach other devices' memory. `wire`: bf16 or
// f16. Contiguous arrays.

/// packed[i] = values[i] * scale, rounded once.
void launch_pack(cudaStream_t, DType wire, const float* values, void* packed, std::int64_t count, float scale);
/// values[i] = packed[i].
void launch_unpack(cudaStream_t, DType wire, const void* packed, float* values, std::int64_t count);

/// One element, as the kernels do it.
template <class Wire> struct Packed {
  using From = float;
  using To = std::uint16_t;
  float scale;
  TUTTI_HOST_DEVICE To operator()(From x) const { return Wire::encode(x * scale); }
};
template <class Wire> struct Unpacked {
  using From = std::uint16_t;
  using To = float;
  TUTTI_HOST_DEVICE To operator()(From bits) const { return Wire::decode(bits); }
};

}  // namespace tutti::cuda_kernels
