// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/initialize.h>

#include <tutti/autodiff/operations/creation.h>
#include <tutti/backend/calls/operand_checks.h>
#include <tutti/backend/raise.h>

#include <algorithm>
#include <cmath>

namespace tutti {
namespace {

// A uniform distribution over [-bound, bound) has the standard deviation bound / sqrt(3).
const double kUniformBound = std::sqrt(3.0);

double kaiming_deviation(const Shape& weight, const KaimingOptions& options) {
  checks::require_enumerator("initialize", "KaimingOptions::Mode", options.mode, KaimingOptions::Mode::fan_out);
  const Fan fan = fan_of(weight);
  const auto values = static_cast<double>(options.mode == KaimingOptions::Mode::fan_in ? fan.in : fan.out);
  return gain_of(options.nonlinearity, options.slope) / std::sqrt(std::max(values, 1.0));
}

double xavier_deviation(const Shape& weight, double gain) {
  const Fan fan = fan_of(weight);
  return gain * std::sqrt(2.0 / static_cast<double>(std::max<std::int64_t>(fan.in + fan.out, 1)));
}

void check_floating(const Tensor& tensor) {
  if (!is_floating(tensor.dtype()))
    raise<DTypeError>("[initialize] needs a floating type, got {}", to_string(tensor.dtype()));
}

}  // namespace

Fan fan_of(const Shape& weight) {
  if (weight.size() < 2)
    raise<ShapeError>("[initialize] fan needs a weight of rank 2 or more, got {}", to_string(weight));
  std::int64_t kernel = 1;
  for (std::size_t axis = 2; axis < weight.size(); ++axis) kernel *= weight[axis];
  return {weight[1] * kernel, weight[0] * kernel};
}

double gain_of(Nonlinearity nonlinearity, double slope) {
  switch (nonlinearity) {
    case Nonlinearity::linear:
    case Nonlinearity::sigmoid: return 1.0;
    case Nonlinearity::tanh: return 5.0 / 3.0;
    case Nonlinearity::relu: return std::sqrt(2.0);
    case Nonlinearity::leaky_relu: return std::sqrt(2.0 / (1.0 + slope * slope));
    case Nonlinearity::selu: return 0.75;
  }
  raise("[initialize] there is no nonlinearity number {}", static_cast<int>(nonlinearity));
}

void identity(const Tensor& weight) {
  check_floating(weight);
  if (weight.rank() != 2) raise<ShapeError>("[identity] needs a matrix, got {}", to_string(weight.shape()));
  Array values = weight.array();
  values.copy_from(
      eye(weight.length(0), weight.length(1), {.dtype = values.dtype(), .device = values.device()}).array());
}

void identity_convolution(const Tensor& weight, std::int64_t groups) {
  check_floating(weight);
  const Shape& shape = weight.shape();
  if (shape.size() < 3 || shape.size() > 5)
    raise<ShapeError>("[identity_convolution] needs a weight [out, in, kernel...] of 3 to 5 axes, got {}",
                      to_string(shape));
  if (groups < 1 || shape[0] % groups != 0)
    raise<ShapeError>("[identity_convolution] {} groups do not divide {} channels", groups, shape[0]);
  fill_constant(weight, 0);
  const std::int64_t outputs = shape[0] / groups;
  for (std::int64_t group = 0; group < groups; ++group)
    for (std::int64_t channel = 0; channel < std::min(outputs, shape[1]); ++channel) {
      Array at = weight.array().slice(0, group * outputs + channel, group * outputs + channel + 1);
      at = at.slice(1, channel, channel + 1);
      for (std::size_t axis = 2; axis < shape.size(); ++axis)
        at = at.slice(static_cast<std::int64_t>(axis), shape[axis] / 2, shape[axis] / 2 + 1);
      at.fill(1);
    }
}

void fill_uniform(const Tensor& tensor, Generator& generator, double low, double high) {
  check_floating(tensor);
  Array values = tensor.array();
  values.copy_from(generator.uniform(values.shape(), values.dtype(), values.device(), low, high));
}

void fill_normal(const Tensor& tensor, Generator& generator, double mean, double standard_deviation) {
  check_floating(tensor);
  Array values = tensor.array();
  values.copy_from(generator.normal(values.shape(), values.dtype(), values.device(), mean, standard_deviation));
}

void fill_truncated_normal(const Tensor& tensor, Generator& generator, double mean, double standard_deviation,
                           double low, double high) {
  check_floating(tensor);
  Array values = tensor.array();
  values.copy_from(
      generator.truncated_normal(values.shape(), values.dtype(), values.device(), mean, standard_deviation, low, high));
}

void fill_constant(const Tensor& tensor, double value) {
  check_floating(tensor);
  Array values = tensor.array();
  values.fill(value);
}

void kaiming_uniform(const Tensor& weight, Generator& generator, const KaimingOptions& options) {
  const double bound = kUniformBound * kaiming_deviation(weight.shape(), options);
  fill_uniform(weight, generator, -bound, bound);
}

void kaiming_normal(const Tensor& weight, Generator& generator, const KaimingOptions& options) {
  fill_normal(weight, generator, 0.0, kaiming_deviation(weight.shape(), options));
}

void xavier_uniform(const Tensor& weight, Generator& generator, double gain) {
  const double bound = kUniformBound * xavier_deviation(weight.shape(), gain);
  fill_uniform(weight, generator, -bound, bound);
}

void xavier_normal(const Tensor& weight, Generator& generator, double gain) {
  fill_normal(weight, generator, 0.0, xavier_deviation(weight.shape(), gain));
}

void initialize_layer(const Tensor& weight, const Tensor& bias, Generator& generator) {
  kaiming_uniform(weight, generator, {.slope = std::sqrt(5.0)});
  if (!bias.defined()) return;
  const double bound = 1.0 / std::sqrt(static_cast<double>(std::max<std::int64_t>(fan_of(weight.shape()).in, 1)));
  fill_uniform(bias, generator, -bound, bound);
}

}  // namespace tutti
