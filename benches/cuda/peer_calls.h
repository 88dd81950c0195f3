// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>

#include <functional>

namespace tutti::bench {

/// A peer's call, queued `calls` times and waited for.
struct PeerCall {
  std::function<void()> run;
  int calls = 1;
};

/// CUDA's own copy between arrays of one device; on a CPU device the C library's.
PeerCall make_copy(const Array& from, const Array& to);

/// cuBLAS's product of square matrices of f32 (or TF32), bf16 or f16, called as its manual has it; no call for other
/// types and on CPU devices.
PeerCall make_product(const Array& lhs, const Array& rhs, const Array& output, bool tf32);

}  // namespace tutti::bench
