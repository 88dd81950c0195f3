// SPDX-License-Identifier: Apache-2.0
#include <tutti/optim/clip.h>

#include <tutti/backend/error.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/registry.h>
#include <tutti/optim/ready_gradient.h>

#include <cmath>
#include <vector>

namespace tutti {
namespace {

/// Squares of f32 overflow from 1e19 on and vanish below 1e-19: such a sum is taken again, in f64.
constexpr double kSmallestTrusted = 1e-30;

double sum_of_squares(const Array& gradient, const Array& first_try) {
  const auto sum = first_try.item<double>();
  if (gradient.dtype() == DType::f64 || (std::isfinite(sum) && sum >= kSmallestTrusted)) return sum;
  return reduce(Reduction::sum_of_squares, gradient.cast(DType::f64), {}).item<double>();
}

void scale_in_place(const Array& gradient, double factor) {
  const Array scale = Array::full({}, factor, gradient.dtype(), gradient.device()).broadcast_to(gradient.shape());
  const Array inputs[] = {gradient, scale};
  const auto call = elementwise::make_call(elementwise::Multiply{}, ElementwiseCall::Part::value);
  backend_for(gradient.device()).elementwise(call, inputs, gradient);
}

std::vector<Array> gradients_of(std::span<const Tensor> parameters) {
  std::vector<Array> gradients;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Array gradient = ready_gradient("clip_grad_norm", parameters[i], i);
    if (gradient.defined() && gradient.size() > 0) gradients.push_back(gradient);
  }
  return gradients;
}

}  // namespace

void check_max_norm(double max_norm) {
  if (!(max_norm > 0.0)) raise("[clip_grad_norm] max_norm must be positive, got {}", max_norm);
}

double gradient_square_sum(std::span<const Tensor> parameters) {
  const std::vector<Array> gradients = gradients_of(parameters);
  std::vector<Array> sums;  // queued for all before the first is read, so that asynchronous devices are waited for once
  for (const Array& gradient : gradients) sums.push_back(reduce(Reduction::sum_of_squares, gradient, {}));
  double total = 0.0;
  for (std::size_t i = 0; i < gradients.size(); ++i) total += sum_of_squares(gradients[i], sums[i]);
  return total;
}

double clip_to_norm(std::span<const Tensor> parameters, double norm, double max_norm, const ClipOptions& options) {
  if (!std::isfinite(norm)) {
    if (options.throw_if_non_finite) raise("[clip_grad_norm] the norm of the gradients is {}", norm);
    return norm;
  }
  if (norm > max_norm)
    for (const Array& gradient : gradients_of(parameters)) scale_in_place(gradient, max_norm / norm);
  return norm;
}

double clip_grad_norm(std::span<const Tensor> parameters, double max_norm, const ClipOptions& options) {
  check_max_norm(max_norm);
  return clip_to_norm(parameters, std::sqrt(gradient_square_sum(parameters)), max_norm, options);
}

}  // namespace tutti
