// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tensor.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace tutti {

using CustomForward = std::function<Array(std::span<const Array> inputs)>;
/// Gradients of the inputs, from the inputs, the output and dL/d(output); an undefined one counts as null.
using CustomBackward =
    std::function<std::vector<Array>(std::span<const Array> inputs, const Array& output, const Array& gradient)>;

/// An operation whose forward and gradient are the caller's own, on arrays, which may be strided; a result of integers
/// has no gradient. What the two compute by themselves is seen by no captured step, and waits for no asynchronous
/// stream: kernels of a program are for `run_kernel` (backend/custom_kernel.h). Errors of the library in them name it.
/// It can be differentiated once: a second derivative through it throws AutodiffError; so does a missing function, an
/// undefined input, a forward that returns an undefined array, and a gradient that is not of its input's shape, dtype
/// and device. Names are kept until the process ends, each once.
Tensor custom_function(std::string name, std::vector<Tensor> inputs, const CustomForward&, CustomBackward);

}  // namespace tutti
