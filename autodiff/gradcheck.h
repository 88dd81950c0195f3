// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tensor.h>

#include <functional>
#include <vector>

namespace tutti {

struct GradcheckOptions {
  double step = 1e-6;  ///< step of the central differences
  double absolute = 1e-6;
  double relative = 1e-5;
};

using CheckedFunction = std::function<Tensor(const std::vector<Tensor>&)>;

/// Compares the gradient of sum(f(inputs) * fixed random numbers) with central differences, for each element of each
/// f64 input that requires a gradient. Throws AutodiffError naming input, element and both values where they differ by
/// more than absolute + relative |expected|; DTypeError for inputs that are not f64.
void gradcheck(const CheckedFunction& f, const std::vector<Tensor>& inputs, const GradcheckOptions& = {});

/// The same for the gradients themselves, with respect to the inputs and to the upstream gradient: second derivatives.
void gradgradcheck(const CheckedFunction& f, const std::vector<Tensor>& inputs, const GradcheckOptions& = {});

}  // namespace tutti
