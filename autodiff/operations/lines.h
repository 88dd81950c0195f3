// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tensor.h>

#include <string_view>

namespace tutti {

/// x's shape with length 1 on these axes; none given: on all.
Shape with_kept_axes(const Tensor& x, const Axes& axes, std::string_view operation);

/// The reduced axes as the last one.
struct Lines {
  Tensor values;
  Dims order;  ///< order of x's axes, before the reduced ones became one
};
Lines lines_of(std::string_view operation, const Tensor& x, const Axes& axes);

}  // namespace tutti
