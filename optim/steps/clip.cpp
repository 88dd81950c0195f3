// SPDX-License-Identifier: Apache-2.0
#include <tutti/optim/clip.h>

#include <tutti/backend/operations.h>
#include <tutti/backend/operations/widening.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>
#include <tutti/optim/steps/owned_gradients.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace tutti {
namespace {

/// Squares of f32 overflow from 1e19 on and vanish below 1e-19: such a sum is taken again, in f64.
constexpr double kSmallestTrusted = 1e-30;

/// What torch.nn.utils.clip_grad_norm_ adds to the norm that it divides by, so that the clipped one is below max_norm.
constexpr double kRoundingRoom = 1e-6;

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

/// A sum of squares for each of the arrays, which are of one device, computed in `dtype` there.
Array square_sums(std::span<const Array> arrays, DType dtype) {
  const Device device = arrays.front().device();
  const Array sums = Array::empty({static_cast<std::int64_t>(arrays.size())}, dtype, device);
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const Array values = arrays[i].cast(dtype);
    const auto place = static_cast<std::int64_t>(i);
    backend_for(device).reduce(Reduction::sum_of_squares, values,
                               sums.slice(0, place, place + 1).reshape(Shape(values.rank(), 1)));
  }
  return sums;
}

/// Those of the gradients, read. Those of one device and dtype, mostly all, are read in one transfer, and no device is
/// waited for before all are queued.
std::vector<double> read_square_sums(std::span<const OwnedGradient> gradients) {
  std::vector<Array> parts;
  for (std::size_t next = 0; next < gradients.size(); next += static_cast<std::size_t>(parts.back().size())) {
    const Array& first = gradients[next].values;
    const auto alike = [&](const OwnedGradient& each) {
      return each.values.device() == first.device() && each.values.dtype() == first.dtype();
    };
    std::vector<Array> arrays;
    for (std::size_t i = next; i < gradients.size() && alike(gradients[i]); ++i) arrays.push_back(gradients[i].values);
    parts.push_back(square_sums(arrays, computed_in(first.dtype())));
  }
  std::vector<double> sums;
  for (const Array& part : parts)
    for (const double sum : part.cast(DType::f64).to_vector<double>()) sums.push_back(sum);
  return sums;
}

/// Whether to wait for the norm is to wait for a device's queue: else all of them are on one, and it is read last.
bool is_queued(std::span<const OwnedGradient> gradients) {
  return !gradients.empty() && std::ranges::all_of(gradients, [&](const OwnedGradient& each) {
    const Device device = each.values.device();
    return device.kind != DeviceKind::cpu && device == gradients.front().values.device();
  });
}

/// The gradients, long ones in parts: copies in f64 of all of a long one would not fit beside it.
std::vector<Array> parts_of(std::span<const OwnedGradient> gradients) {
  constexpr std::int64_t kLongest = std::int64_t{1} << 22U;
  std::vector<Array> parts;
  for (const OwnedGradient& each : gradients) {
    const std::int64_t size = each.values.size();
    if (size <= kLongest || !each.values.is_contiguous()) {
      parts.push_back(each.values);
      continue;
    }
    const Array flat = each.values.reshape({size});
    for (std::int64_t begin = 0; begin < size; begin += kLongest)
      parts.push_back(flat.slice(0, begin, std::min(begin + kLongest, size)));
  }
  return parts;
}

Array queued_norm(std::span<const OwnedGradient> gradients) {
  const Array sums = square_sums(parts_of(gradients), DType::f64);  // squares of f32 may be out of its range
  return apply(elementwise::Sqrt{}, reduce(Reduction::sum, sums, {}));
}

Array queued_factor(const Array& norm, double max_norm) {
  const auto number = [&](double value) {
    return backend_for(norm.device()).literal(value, DType::f64, norm.device());
  };
  const Array factor =
      apply(elementwise::Divide{}, number(max_norm), apply(elementwise::Add{}, norm, number(kRoundingRoom)));
  const Array finite = apply(elementwise::Less{}, norm, number(std::numeric_limits<double>::infinity()));
  return where(finite, apply(elementwise::Minimum{}, factor, number(1)), number(1));
}

void scale_in_place(const Array& array, const Array& factor) {
  if (is_narrow(array)) {  // the factor would be rounded, too
    const Array wide = widened(array);
    scale_in_place(wide, factor);
    return backend_for(array.device()).cast(wide, array);
  }
  const Array inputs[] = {array, factor.cast(array.dtype()).broadcast_to(array.shape())};
  const auto call = elementwise::make_call(elementwise::Multiply{}, ElementwiseCall::Part::value);
  backend_for(array.device()).elementwise(call, inputs, array);
}

Array clip_queued(std::span<const OwnedGradient> gradients, double max_norm) {
  if (gradients.empty()) return Array::zeros({}, DType::f64, cpu());
  const Device device = gradients.front().values.device();
  for (const OwnedGradient& each : gradients)
    if (each.values.device() != device)
      raise<DeviceError>("[clip_grad_norm_queued] gradients are on several devices: {} and {}", to_string(device),
                         to_string(each.values.device()));
  Array norm = queued_norm(gradients);
  const Array factor = queued_factor(norm, max_norm);
  for (const OwnedGradient& gradient : gradients)
    change_in_place(gradient, [&](const Array& values) { scale_in_place(values, factor); });
  return norm;
}

void tell_non_finite(std::span<const Tensor> parameters, double norm, const ClipOptions& options) {
  if (options.throw_if_non_finite) raise("[clip_grad_norm] the norm of the gradients is {}", norm);
  if (options.drop_if_non_finite)
    for (const Tensor& parameter : parameters)
      if (parameter.requires_grad()) Tensor(parameter).zero_grad();
}

}  // namespace

void check_max_norm(double max_norm) {
  if (!(max_norm > 0.0)) raise("[clip_grad_norm] max_norm must be positive, got {}", max_norm);
}

double gradient_square_sum(std::span<const Tensor> parameters) {
  const std::vector<OwnedGradient> gradients = owned_gradients("clip_grad_norm", parameters);
  const std::vector<double> sums = read_square_sums(gradients);
  double total = 0.0;
  for (std::size_t i = 0; i < gradients.size(); ++i) total += sum_of_squares(gradients[i].values, sums[i]);
  return total;
}

double clip_to_norm(std::span<const Tensor> parameters, double norm, double max_norm, const ClipOptions& options) {
  if (!std::isfinite(norm)) {
    tell_non_finite(parameters, norm, options);
    return norm;
  }
  const double factor = max_norm / (norm + kRoundingRoom);
  if (!(factor < 1.0)) return norm;
  for (const OwnedGradient& gradient : owned_gradients("clip_grad_norm", parameters))
    change_in_place(gradient, [&](const Array& values) { scale_in_place(values, factor); });
  return norm;
}

double clip_grad_norm(std::span<const Tensor> parameters, double max_norm, const ClipOptions& options) {
  check_max_norm(max_norm);
  if (const std::vector<OwnedGradient> gradients = owned_gradients("clip_grad_norm", parameters);
      is_queued(gradients)) {
    const auto norm = clip_queued(gradients, max_norm).item<double>();
    if (!std::isfinite(norm)) tell_non_finite(parameters, norm, options);
    return norm;
  }
  return clip_to_norm(parameters, std::sqrt(gradient_square_sum(parameters)), max_norm, options);
}

Tensor clip_grad_norm_queued(std::span<const Tensor> parameters, double max_norm) {
  check_max_norm(max_norm);
  return Tensor(clip_queued(owned_gradients("clip_grad_norm_queued", parameters), max_norm));
}

void clip_unread_norm(std::span<const Tensor> parameters, double max_norm) {
  check_max_norm(max_norm);
  const std::vector<OwnedGradient> gradients = owned_gradients("clip_grad_norm", parameters);
  if (is_queued(gradients))
    (void)clip_queued(gradients, max_norm);
  else
    (void)clip_grad_norm(parameters, max_norm);
}

void clip_grad_value(std::span<const Tensor> parameters, double limit) {
  if (!(limit > 0.0)) raise("[clip_grad_value] the limit must be positive, got {}", limit);
  for (const OwnedGradient& gradient : owned_gradients("clip_grad_value", parameters))
    change_in_place(gradient, [&](const Array& values) { clamp_in_place(values, limit); });
}

}  // namespace tutti
