// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/initialize.h>

#include <tutti/backend/error.h>

#include <algorithm>
#include <cmath>

namespace tutti {
namespace {

// A uniform distribution over [-bound, bound) has the standard deviation bound / sqrt(3).
const double kUniformBound = std::sqrt(3.0);

double kaiming_deviation(const Shape& weight, const KaimingOptions& options) {
  const Fan fan = fan_of(weight);
  const auto values = static_cast<double>(options.mode == KaimingOptions::Mode::fan_in ? fan.in : fan.out);
  return std::sqrt(2.0 / ((1.0 + options.slope * options.slope) * std::max(values, 1.0)));
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
