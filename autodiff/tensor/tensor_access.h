// SPDX-License-Identifier: Apache-2.0
#pragma once

// Access to a tensor beyond what users see, for the engine and the operations.

#include <tutti/autodiff/tensor.h>

#include <memory>

namespace tutti {

/// The node that receives a tensor's gradient: what made it, or its leaf; null if it requires none.
const std::shared_ptr<Node>& gradient_node(const Tensor&);

/// The number that a weak scalar stands for.
const Scalar& weak_value(const Tensor&);

/// The value, moved out when this is its only tensor.
Array take_array(Tensor&&);

/// The value as an array that nothing else refers to: moved out when possible, else copied. Contiguous.
Array take_exclusive(Tensor&&);

/// sum += gradient, of one shape and dtype: in place if `owned`, or if nothing else refers to the sum's memory; else
/// into a new array.
void add_to(Array& sum, const Array& gradient, bool owned = false);

}  // namespace tutti
