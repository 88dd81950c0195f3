// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/process/plugin.h>

namespace tutti {

/// Names of what libtutti_cuda.so exports, each with the library's version: one of another version has others.
#define TUTTI_TEXT_(text) #text
#define TUTTI_TEXT(text) TUTTI_TEXT_(text)
inline constexpr const char* kCudaBackendEntry = "tutti_cuda_backend_" TUTTI_TEXT(TUTTI_SYMBOL_VERSION);
inline constexpr const char* kCudaEnginesEntry = "tutti_cuda_engines_" TUTTI_TEXT(TUTTI_SYMBOL_VERSION);
#undef TUTTI_TEXT
#undef TUTTI_TEXT_

/// Address of a function of libtutti_cuda.so, which is loaded by the first call. Throws DeviceError that says what is
/// missing, and where it was looked for. In a library that has CUDA as a plugin only.
void* cuda_plugin_function(const char* name);

}  // namespace tutti
