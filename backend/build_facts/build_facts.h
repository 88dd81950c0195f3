// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace tutti {

/// How the library was built: what is the same in libtutti.so and in programs that hold the library.
struct BuildFacts {
  std::string compiler;  ///< "GCC 12.2.0"
  std::string build;     ///< "release, optimization 3"
  std::string level;     ///< instructions that kernels were compiled for: "x86-64-v3"
};
BuildFacts build_facts();

}  // namespace tutti
