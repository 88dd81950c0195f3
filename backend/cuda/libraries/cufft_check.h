// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>

#include <cufft.h>

#include <string_view>

namespace tutti::cuda_runtime {

/// Throws DeviceError naming operation, device, call and the number of cuFFT's error, which has no text.
[[noreturn]] void raise_cufft_error(cufftResult, const char* call, Device, std::string_view operation);

}  // namespace tutti::cuda_runtime

/// Every call of cuFFT goes through this: TUTTI_CUFFT(device, "fourier", cufftXtExec(...)).
#define TUTTI_CUFFT(device, operation, call)                                              \
  do {                                                                                    \
    if (const cufftResult status_of_call = (call); status_of_call != CUFFT_SUCCESS)       \
      ::tutti::cuda_runtime::raise_cufft_error(status_of_call, #call, device, operation); \
  } while (false)
