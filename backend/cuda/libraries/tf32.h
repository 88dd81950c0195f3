// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/process/environment.h>

namespace tutti {

/// TUTTI_CUDA_TF32=1: products and convolutions of f32 are faster and have the 10-bit mantissa of TF32 in their
/// factors.
inline bool tf32_allowed() {
  static const bool allowed = environment_switch("TUTTI_CUDA_TF32");
  return allowed;
}

}  // namespace tutti
