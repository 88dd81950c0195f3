// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tutti {

/// Copies of one size: half of the bytes are read, half written.
struct CopyLimit {
  std::int64_t bytes = 0;
  double bytes_per_second = 0.0;
};

/// Rates that one core reaches at most, by the instructions that the library's kernels have.
struct ProcessorLimits {
  double flops = 0.0;              ///< a second, in multiply-adds of f32
  double bf16_flops = 0.0;         ///< the same in products of bf16, which are summed in f32
  std::string bf16_products = {};  ///< instructions that multiply bf16: "AMX tiles", "AVX512-BF16", "widened to f32"
  std::vector<CopyLimit> copies = {};  ///< rising sizes: caches are faster than memory

  /// Bytes a second of the copy that moves about as many bytes.
  double copy_rate(double bytes) const;
};

/// Measures them on the calling thread: the best of three tries each, about two seconds in all. Products of bf16 take
/// the way that the process's kernels take (TUTTI_CPU_BF16); Error if that variable cannot be meant.
ProcessorLimits measure_processor_limits();

}  // namespace tutti
