// SPDX-License-Identifier: Apache-2.0
#pragma once

// Operations that draw from a generator. What they draw depends on the generator alone, never on the kind of device.

#include <tutti/autodiff/tensor.h>
#include <tutti/backend/random.h>

namespace tutti {

/// Each element is 0 with probability p, and x / (1 - p) otherwise, so that the mean stays: Srivastava et al.,
/// "Dropout: A Simple Way to Prevent Neural Networks from Overfitting" (2014). x is floating, else DTypeError; p in [0,
/// 1], else Error. Which elements are kept is the same for all dtypes. NaN and infinities that are dropped are 0 too.
/// Keeps one byte for each element for its gradient. Without training, or with p = 0, it is x itself, and nothing is
/// drawn.
Tensor dropout(const Tensor& x, double p, Generator&, bool training = true);

}  // namespace tutti
