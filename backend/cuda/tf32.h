// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <string_view>

namespace tutti {

/// TUTTI_CUDA_TF32=1: products and convolutions of f32 are faster and have the 10-bit mantissa of TF32 in their
/// factors.
inline bool tf32_allowed() {
  static const bool allowed = [] {
    const char* text = std::getenv("TUTTI_CUDA_TF32");
    return text != nullptr && std::string_view(text) == "1";
  }();
  return allowed;
}

}  // namespace tutti
