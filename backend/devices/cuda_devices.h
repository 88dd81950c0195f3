// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/backend.h>

#include <memory>

namespace tutti {

/// New backend of this process's CUDA devices, from the program itself or from a plugin, as the library says that is
/// linked (see cuda_devices.cpp): so a program starts on a machine that has no CUDA. Called by the registry, once it is
/// asked for the first of them. Throws DeviceError that says what is missing, the plugin, a library of CUDA's or the
/// driver, and where it was looked for.
std::unique_ptr<Backend> make_cuda_backend();

}  // namespace tutti
