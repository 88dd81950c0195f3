// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tensor.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace tutti {

/// The gradient of a parameter as an optimizer may use it: reductions in flight are joined first. Undefined if there is
/// none. Throws Error, naming the parameter, for a gradient of an attached parameter that was never reduced or is
/// applied already, and ShapeError, DTypeError or DeviceError for one that does not fit its parameter.
Array ready_gradient(std::string_view operation, const Tensor& parameter, std::size_t position);

/// The gradient of a parameter with sparse gradients, coalesced, as ready_gradient gives others, with its errors. Waits
/// for the device's compute stream.
SparseGradient ready_sparse_gradient(std::string_view operation, const Tensor& parameter, std::size_t position);

/// "parameter "fc2.weight"", or by its position if it belongs to no group.
std::string parameter_text(const Tensor& parameter, std::size_t position);

}  // namespace tutti
