// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tensor.h>

#include <cstdint>
#include <string_view>

namespace tutti {

/// What a loss makes of its values, one for each example (classification) or element (all others): their mean or sum,
/// of rank 0, or the values as they are.
enum class LossReduction : std::uint8_t { mean, sum, none };

/// Losses of any shape -> [], or themselves for none. Throws ShapeError, naming the operation, for the mean of nothing.
Tensor reduce_loss(std::string_view operation, const Tensor& losses, LossReduction);

}  // namespace tutti
