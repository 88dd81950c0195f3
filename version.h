// SPDX-License-Identifier: Apache-2.0
#pragma once

// Version of these headers, and what the library that runs says of itself. Before 1.0 each minor version has an
// interface of its own.

#define TUTTI_VERSION_MAJOR 0
#define TUTTI_VERSION_MINOR 1
#define TUTTI_VERSION_PATCH 0
#define TUTTI_VERSION "0.1.0"

#include <string>
#include <utility>
#include <vector>

namespace tutti {

/// Version of the library that runs. It is TUTTI_VERSION unless a program meets another one than it was compiled with.
const char* version() noexcept;

/// How the library that runs was built.
struct BuildInfo {
  std::string compiler;                                ///< "GCC 12.2.0"
  std::string build;                                   ///< "release, optimization 3"
  std::string cpu_arch;                                ///< Meson option cpu_arch; empty: the compiler's default
  std::vector<std::string> instruction_sets;           ///< extensions of the processor that its code needs
  std::vector<std::pair<std::string, bool>> features;  ///< by the name of the Meson option: whether it is built in
  bool is_shared = false;                              ///< libtutti.so; false: the program holds the library
  std::string file;                                    ///< where libtutti.so lies; empty if the program holds it
};
BuildInfo build_info();

}  // namespace tutti
