// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/libraries/cublas_check.h>

#include <tutti/backend/raise.h>

namespace tutti::cuda_runtime {

void raise_cublas_error(cublasStatus_t status, const char* call, Device device, std::string_view operation) {
  const std::string_view text = call;
  raise<DeviceError>("[{}] {}: {} failed: {} ({})", operation, to_string(device), text.substr(0, text.find('(')),
                     cublasLtGetStatusString(status), cublasLtGetStatusName(status));
}

}  // namespace tutti::cuda_runtime
