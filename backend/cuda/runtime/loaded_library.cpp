// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/runtime/loaded_library.h>

#include <tutti/backend/raise.h>

#include <dlfcn.h>

namespace tutti {

void* LoadedLibrary::function(const char* name) {
  const std::lock_guard lock(mutex_);
  const auto trouble = [] {
    const char* const text = dlerror();
    return text == nullptr ? "no reason was told" : text;
  };
  if (library_ == nullptr) library_ = dlopen(file_.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) raise<DeviceError>("[cuda] {} cannot be loaded, which {} is in: {}", file_, name, trouble());
  void* const found = dlsym(library_, name);
  if (found == nullptr) raise<DeviceError>("[cuda] {} of {} is missing: {}", name, file_, trouble());
  return found;
}

}  // namespace tutti
