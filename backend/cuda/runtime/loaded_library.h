// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <string>

namespace tutti {

/// Library of NVIDIA's that not every program needs: loaded when a function of it is first called, so that programs
/// also run where it is not installed. It is never closed, as its handles live as long as the process. Thread-safe.
class LoadedLibrary {
 public:
  /// `file`: its name with the version of its interface, as "libcufft.so.11".
  explicit LoadedLibrary(std::string file) : file_(std::move(file)) {}

  /// Throws DeviceError that names the file, and the function where it is that which is missing.
  void* function(const char* name);

 private:
  const std::string file_;
  std::mutex mutex_;  // guards what follows
  void* library_ = nullptr;
};

}  // namespace tutti

#define TUTTI_LOADED_PRAGMA_(text) _Pragma(#text)
#define TUTTI_LOADED_WEAK_(name) TUTTI_LOADED_PRAGMA_(weak name)

/// Defines, in a namespace, a function object with the name and the arguments of a library's function, which it finds
/// by its first call; a program that is linked with the library keeps its own. `library`: a function that gives the
/// LoadedLibrary.
#define TUTTI_LOADED_FUNCTION(library, name)                                                           \
  TUTTI_LOADED_WEAK_(name)                                                                             \
  inline constexpr auto name = [](auto... arguments) {                                                 \
    static const auto found =                                                                          \
        &::name != nullptr ? &::name : reinterpret_cast<decltype(&::name)>(library().function(#name)); \
    return found(arguments...);                                                                        \
  };
