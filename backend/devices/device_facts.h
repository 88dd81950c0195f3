// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tutti {

/// A library of somebody else, as this process finds it when it runs.
struct ThirdParty {
  std::string name;
  std::string version;  ///< empty: it is not there
  std::string note;     ///< why it is not there, or what else is to be known of it
};

struct GpuFacts {
  std::string name;
  std::string compute_capability;  ///< "9.0"
  std::uint64_t memory_bytes = 0;
};

/// CUDA in this process.
struct CudaFacts {
  std::string trouble;  ///< why there are no CUDA devices, and what was looked for; empty: there are
  std::vector<GpuFacts> gpus;
  int devices_per_gpu = 1;
  std::vector<ThirdParty> libraries;  ///< none where the library has no CUDA
};

/// Looks for CUDA devices as the first use of one does, and throws nothing because something is missing.
CudaFacts cuda_facts();

}  // namespace tutti
