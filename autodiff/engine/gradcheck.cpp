// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/gradcheck.h>

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/random.h>

#include <cmath>

namespace tutti {

namespace {

// A scalar whose gradient shows every entry of the Jacobian's transpose, weighted at random.
Tensor weighted(const Tensor& output) {
  Generator random(20240229);
  return sum(output * Tensor(random.uniform(output.shape(), DType::f64, output.device(), 0.5, 1.5)));
}

std::vector<Tensor> leaves_of(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> leaves;
  for (const Tensor& input : inputs) {
    if (input.requires_grad() && input.dtype() != DType::f64)
      raise<DTypeError>("[gradcheck] input {} is {}: central differences need f64", leaves.size(),
                        to_string(input.dtype()));
    leaves.emplace_back(input.array().copy(), input.requires_grad());
  }
  return leaves;
}

double value_with(const CheckedFunction& f, std::vector<Tensor> inputs, std::size_t which, std::size_t element,
                  double delta) {
  std::vector<double> values = inputs[which].to_vector<double>();
  values[element] += delta;
  inputs[which] = Tensor(Array::from(values, inputs[which].shape(), inputs[which].device()), true);
  return weighted(f(inputs)).item<double>();
}

}  // namespace

void gradcheck(const CheckedFunction& f, const std::vector<Tensor>& inputs, const GradcheckOptions& options) {
  const std::vector<Tensor> leaves = leaves_of(inputs);
  std::vector<Tensor> differentiated;
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; i < leaves.size(); ++i)
    if (leaves[i].requires_grad()) {
      differentiated.push_back(leaves[i]);
      positions.push_back(i);
    }
  const Tensor output = weighted(f(leaves));
  const std::vector<Tensor> gradients = grad(output, differentiated, {.allow_unused = true});
  for (std::size_t g = 0; g < gradients.size(); ++g) {
    const auto count = static_cast<std::size_t>(differentiated[g].size());
    const std::vector<double> got =
        gradients[g].defined() ? gradients[g].to_vector<double>() : std::vector<double>(count, 0.0);
    for (std::size_t element = 0; element < count; ++element) {
      const double above = value_with(f, leaves, positions[g], element, options.step);
      const double below = value_with(f, leaves, positions[g], element, -options.step);
      const double expected = (above - below) / (2 * options.step);
      if (!(std::abs(got[element] - expected) <= options.absolute + options.relative * std::abs(expected)))
        raise<AutodiffError>("[gradcheck] input {} element {}: gradient {}, central difference {}", positions[g],
                             element, got[element], expected);
    }
  }
}

// The upstream gradient is an input like the others: where f is linear, all of its second derivative is with respect to
// that one.
void gradgradcheck(const CheckedFunction& f, const std::vector<Tensor>& inputs, const GradcheckOptions& options) {
  const CheckedFunction gradients = [&f](const std::vector<Tensor>& at) {
    const std::vector<Tensor> x(at.begin(), at.end() - 1);
    std::vector<Tensor> differentiated;
    for (const Tensor& input : x)
      if (input.requires_grad()) differentiated.push_back(input);
    const std::vector<Tensor> first =
        grad(sum(f(x) * at.back()), differentiated, {.create_graph = true, .allow_unused = true});
    Tensor total;
    for (const Tensor& gradient : first) {
      if (!gradient.defined()) continue;
      const Tensor part = weighted(gradient);
      total = total.defined() ? total + part : part;
    }
    if (!total.defined()) raise<AutodiffError>("[gradgradcheck] no input has a gradient");
    return total;
  };
  const Tensor output = f(inputs);
  Generator random(20240301);
  std::vector<Tensor> extended = inputs;
  extended.emplace_back(random.uniform(output.shape(), DType::f64, output.device(), 0.5, 1.5), true);
  gradcheck(gradients, extended, options);
}

}  // namespace tutti
