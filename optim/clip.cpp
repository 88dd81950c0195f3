// SPDX-License-Identifier: Apache-2.0
#include <tutti/optim/clip.h>

#include <tutti/backend/error.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/registry.h>
#include <tutti/backend/widening.h>
#include <tutti/optim/owned_gradients.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace tutti {
namespace {

/// Squares of f32 overflow from 1e19 on and vanish below 1e-19: such a sum is taken again, in f64.
constexpr double kSmallestTrusted = 1e-30;

double sum_of_squares(const Array& gradient, double sum) {
  if (gradient.dtype() == DType::f64 || (std::isfinite(sum) && sum >= kSmallestTrusted)) return sum;
  return reduce(Reduction::sum_of_squares, gradient.cast(DType::f64), {}).item<double>();
}

void clamp_in_place(const Array& gradient, double limit) {
  const auto bound = [&](double value) {
    return Array::full({}, value, gradient.dtype(), gradient.device()).broadcast_to(gradient.shape());
  };
  const Array above[] = {gradient, bound(-limit)};
  const Array below[] = {gradient, bound(limit)};
  Backend& backend = backend_for(gradient.device());
  backend.elementwise(elementwise::make_call(elementwise::Maximum{}, ElementwiseCall::Part::value), above, gradient);
  backend.elementwise(elementwise::make_call(elementwise::Minimum{}, ElementwiseCall::Part::value), below, gradient);
}

/// A sum for each gradient. Those of one device and dtype, mostly all, are read in one transfer, and no device is
/// waited for before all are queued.
std::vector<double> square_sums(std::span<const OwnedGradient> gradients) {
  std::vector<Array> parts;
  for (std::size_t next = 0; next < gradients.size(); next += static_cast<std::size_t>(parts.back().size())) {
    const Array& first = gradients[next].values;
    const auto alike = [&](const OwnedGradient& each) {
      return each.values.device() == first.device() && each.values.dtype() == first.dtype();
    };
    const auto rest = gradients.subspan(next);
    const auto count = std::ranges::find_if_not(rest, alike) - rest.begin();
    parts.push_back(Array::empty({count}, computed_in(first.dtype()), first.device()));
    for (std::int64_t i = 0; i < count; ++i) {
      const Array values = widened(rest[static_cast<std::size_t>(i)].values);
      backend_for(first.device())
          .reduce(Reduction::sum_of_squares, values, parts.back().slice(0, i, i + 1).reshape(Shape(values.rank(), 1)));
    }
  }
  std::vector<double> sums;
  for (const Array& part : parts)
    for (const double sum : part.cast(DType::f64).to_vector<double>()) sums.push_back(sum);
  return sums;
}

}  // namespace

void check_max_norm(double max_norm) {
  if (!(max_norm > 0.0)) raise("[clip_grad_norm] max_norm must be positive, got {}", max_norm);
}

double gradient_square_sum(std::span<const Tensor> parameters) {
  const std::vector<OwnedGradient> gradients = owned_gradients("clip_grad_norm", parameters);
  const std::vector<double> sums = square_sums(gradients);
  double total = 0.0;
  for (std::size_t i = 0; i < gradients.size(); ++i) total += sum_of_squares(gradients[i].values, sums[i]);
  return total;
}

double clip_to_norm(std::span<const Tensor> parameters, double norm, double max_norm, const ClipOptions& options) {
  if (!std::isfinite(norm)) {
    if (options.throw_if_non_finite) raise("[clip_grad_norm] the norm of the gradients is {}", norm);
    if (options.drop_if_non_finite)
      for (const Tensor& parameter : parameters)
        if (parameter.requires_grad()) Tensor(parameter).zero_grad();
    return norm;
  }
  if (norm <= max_norm) return norm;
  for (const OwnedGradient& gradient : owned_gradients("clip_grad_norm", parameters))
    change_in_place(gradient, [&](const Array& values) { scale_in_place(values, max_norm / norm); });
  return norm;
}

double clip_grad_norm(std::span<const Tensor> parameters, double max_norm, const ClipOptions& options) {
  check_max_norm(max_norm);
  return clip_to_norm(parameters, std::sqrt(gradient_square_sum(parameters)), max_norm, options);
}

void clip_grad_value(std::span<const Tensor> parameters, double limit) {
  if (!(limit > 0.0)) raise("[clip_grad_value] the limit must be positive, got {}", limit);
  for (const OwnedGradient& gradient : owned_gradients("clip_grad_value", parameters))
    change_in_place(gradient, [&](const Array& values) { clamp_in_place(values, limit); });
}

}  // namespace tutti
