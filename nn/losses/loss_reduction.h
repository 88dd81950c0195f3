// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tensor.h>

#include <cstdint>
#include <string_view>

namespace tutti {

/// Reduction of the values of a loss, one for each example (classification) or element (all others): their mean or sum,
/// of rank 0, or the values as they are. `batch_mean` is their sum divided by the length of the first axis: the mean of
/// the examples' sums, as PyTorch's "batchmean".
enum class LossReduction : std::uint8_t { mean, sum, none, batch_mean };

/// Losses of any shape -> [], or themselves for none. Throws ShapeError, naming the operation, for the mean of nothing,
/// unless an EmptyBatch lives (nn/empty_batch.h), and for the batch mean of a loss without axes.
Tensor reduce_loss(std::string_view operation, const Tensor& losses, LossReduction);

}  // namespace tutti
