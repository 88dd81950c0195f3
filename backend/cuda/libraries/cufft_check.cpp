// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/libraries/cufft_check.h>

#include <tutti/backend/raise.h>

namespace tutti::cuda_runtime {

void raise_cufft_error(cufftResult status, const char* call, Device device, std::string_view operation) {
  const std::string_view text = call;
  raise<DeviceError>("[{}] {}: {} failed with cuFFT's error {}{}", operation, to_string(device),
                     text.substr(0, text.find('(')), static_cast<int>(status),
                     status == CUFFT_ALLOC_FAILED ? " (out of memory)" : "");
}

}  // namespace tutti::cuda_runtime
