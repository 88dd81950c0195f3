// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tensor.h>

#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace tutti {

/// A parameter that has a gradient with elements, and the gradient's values; of a sparse one its rows, of which equal
/// ones have been summed.
struct OwnedGradient {
  const Tensor* parameter;
  Array values;
};

/// Gradients of all parameters, as ready_gradient.h gives them, with its errors.
std::vector<OwnedGradient> owned_gradients(std::string_view operation, std::span<const Tensor> parameters);

/// Calls `change`, which writes in place, on the values of a gradient; rows may be shared with whoever has read them:
/// changed ones take their place.
void change_in_place(const OwnedGradient&, const std::function<void(const Array&)>& change);

void scale_in_place(const Array&, double factor);

}  // namespace tutti
