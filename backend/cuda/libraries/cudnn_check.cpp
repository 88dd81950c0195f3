// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/libraries/cudnn_check.h>

#include <tutti/backend/raise.h>

namespace tutti::cuda_runtime {

void raise_cudnn_error(cudnnStatus_t status, const char* call, Device device, std::string_view operation) {
  std::string_view text = call;
  text = text.substr(0, text.find('('));
  text.remove_prefix(text.rfind("cudnn"));  // without the table that it was found in
  raise<DeviceError>("[{}] {}: {} failed: {}", operation, to_string(device), text,
                     cudnn_library()->cudnnGetErrorString(status));
}

}  // namespace tutti::cuda_runtime
