// SPDX-License-Identifier: Apache-2.0
#include <tutti/optim/clip.h>

#include <tutti/backend/error.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/registry.h>
#include <tutti/backend/widening.h>
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
  if (is_narrow(gradient)) {
    const Array wide = widened(gradient);
    scale_in_place(wide, factor);
    return backend_for(gradient.device()).cast(wide, gradient);
  }
  const Array scale = Array::full({}, factor, gradient.dtype(), gradient.device()).broadcast_to(gradient.shape());
  const Array inputs[] = {gradient, scale};
  const auto call = elementwise::make_call(elementwise::Multiply{}, ElementwiseCall::Part::value);
  backend_for(gradient.device()).elementwise(call, inputs, gradient);
}

// Rows may be shared with whoever read them: scaled ones take their place.
void scale_rows(const Tensor& parameter, double factor) {
  for (SparseGradient& part : parameter.gradient_slot().rows) {
    part.rows = part.rows.copy();
    if (part.count() > 0) scale_in_place(part.rows, factor);
  }
}

// Of a sparse gradient: its rows, after equal ones have been summed.
Array gradient_values(const Tensor& parameter, std::size_t position) {
  if (parameter.has_sparse_grad()) return ready_sparse_gradient("clip_grad_norm", parameter, position).rows;
  return ready_gradient("clip_grad_norm", parameter, position);
}

struct OwnedGradient {
  const Tensor* parameter;
  Array values;
};

std::vector<OwnedGradient> gradients_of(std::span<const Tensor> parameters) {
  std::vector<OwnedGradient> gradients;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Array values = gradient_values(parameters[i], i);
    if (values.defined() && values.size() > 0) gradients.push_back({&parameters[i], values});
  }
  return gradients;
}

}  // namespace

void check_max_norm(double max_norm) {
  if (!(max_norm > 0.0)) raise("[clip_grad_norm] max_norm must be positive, got {}", max_norm);
}

double gradient_square_sum(std::span<const Tensor> parameters) {
  const std::vector<OwnedGradient> gradients = gradients_of(parameters);
  std::vector<Array> sums;  // queued for all before the first is read, so that asynchronous devices are waited for once
  for (const OwnedGradient& gradient : gradients)
    sums.push_back(reduce(Reduction::sum_of_squares, widened(gradient.values), {}));
  double total = 0.0;
  for (std::size_t i = 0; i < gradients.size(); ++i) total += sum_of_squares(gradients[i].values, sums[i]);
  return total;
}

double clip_to_norm(std::span<const Tensor> parameters, double norm, double max_norm, const ClipOptions& options) {
  if (!std::isfinite(norm)) {
    if (options.throw_if_non_finite) raise("[clip_grad_norm] the norm of the gradients is {}", norm);
    return norm;
  }
  if (norm <= max_norm) return norm;
  for (const auto& [parameter, values] : gradients_of(parameters))
    if (parameter->has_sparse_grad())
      scale_rows(*parameter, max_norm / norm);
    else
      scale_in_place(values, max_norm / norm);
  return norm;
}

double clip_grad_norm(std::span<const Tensor> parameters, double max_norm, const ClipOptions& options) {
  check_max_norm(max_norm);
  return clip_to_norm(parameters, std::sqrt(gradient_square_sum(parameters)), max_norm, options);
}

}  // namespace tutti
