// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/onnx/format/model_file.h>

#include <string>

namespace tutti::onnx {

/// Bytes of a model's file, of version 9 of the format. Waits for the weights' devices. Throws DataError for more than
/// the 2 GiB that such a file may have.
std::string model_bytes(const ModelFile&);

}  // namespace tutti::onnx
