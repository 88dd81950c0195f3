// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/libraries/cudnn_library.h>

#include <tutti/backend/cuda/libraries/convolution_library_facts.h>

#include <dlfcn.h>
#include <fmt/format.h>

#include <optional>

// A program that brings these functions itself, by linking cuDNN, keeps its own.
#define TUTTI_PRAGMA(text) _Pragma(#text)
#define TUTTI_WEAK(name) TUTTI_PRAGMA(weak name)
TUTTI_CUDNN_FUNCTIONS(TUTTI_WEAK)

#define TUTTI_TEXT_OF(text) #text
#define TUTTI_TEXT(text) TUTTI_TEXT_OF(text)

namespace tutti {
namespace {

template <class F> F function(void* library, const char* name, F linked) {
  if (linked != nullptr || library == nullptr) return linked;
  return reinterpret_cast<F>(dlsym(library, name));
}

std::optional<CudnnLibrary> load() {
  // Never closed: its handles may be destroyed as late as the end of the process.
  void* const library =
      &::cudnnCreate == nullptr ? dlopen("libcudnn.so." TUTTI_TEXT(CUDNN_MAJOR), RTLD_NOW | RTLD_LOCAL) : nullptr;
  CudnnLibrary found;
  bool complete = true;
#define TUTTI_FIND(name)                          \
  found.name = function(library, #name, &::name); \
  complete = complete && found.name != nullptr;
  TUTTI_CUDNN_FUNCTIONS(TUTTI_FIND)
#undef TUTTI_FIND
  return complete ? std::optional(found) : std::nullopt;
}

}  // namespace

const CudnnLibrary* cudnn_library() {
  static const std::optional<CudnnLibrary> library = load();
  return library ? &*library : nullptr;
}

ThirdParty convolution_library_facts() {
  const CudnnLibrary* const cudnn = cudnn_library();
  if (cudnn == nullptr)
    return {"cuDNN", "",
            "libcudnn.so." TUTTI_TEXT(CUDNN_MAJOR) " is not found, or lacks functions: own kernels convolve"};
  const std::size_t version = cudnn->cudnnGetVersion();
  return {"cuDNN", fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100),
          fmt::format("built with {}.{}.{}", CUDNN_MAJOR, CUDNN_MINOR, CUDNN_PATCHLEVEL)};
}

}  // namespace tutti
