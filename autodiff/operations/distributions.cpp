// SPDX-License-Identifier: Apache-2.0
// Distributions that are functions of uniform and normal numbers. These are drawn in f64, so that tails reach as far as
// they should, and rounded at the end.
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/raise.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <string_view>

namespace tutti {
namespace {

void check_positive(std::string_view distribution, std::string_view what, double value) {
  if (!(std::isfinite(value) && value > 0)) raise("[{}] the {} {} is not positive", distribution, what, value);
}
void check_finite(std::string_view distribution, std::string_view what, double value) {
  if (!std::isfinite(value)) raise("[{}] the {} is {}", distribution, what, value);
}

/// In [0, 1), the multiples of 2^-53.
Tensor unit(const Shape& shape, Generator& generator, Device device) {
  return Tensor(generator.uniform(shape, DType::f64, device));
}
/// In (0, 1): 0 is half a step above.
Tensor open_unit(const Shape& shape, Generator& generator, Device device) {
  return maximum(unit(shape, generator, device), 0x1p-54);
}

Tensor rounded(std::string_view distribution, const Tensor& drawn, const TensorOptions& options) {
  const DType dtype = options.dtype.value_or(DType::f32);
  if (!is_floating(dtype)) raise<DTypeError>("[{}] draws floating types, not {}", distribution, to_string(dtype));
  return Tensor(cast(drawn, dtype).array(), options.requires_grad);
}

/// With shape parameters of 1 at least; Marsaglia and Tsang's rejection, every time of the whole tensor.
Tensor gamma_above_one(const Tensor& concentration, Generator& generator) {
  constexpr int kRounds = 12;  // 5 in 100 are rejected at most: 2e-16 are left
  const Tensor d = concentration - 1.0 / 3;
  const Tensor c = rsqrt(9 * d);
  Tensor drawn = d;
  Tensor pending = ones(d.shape(), {.dtype = DType::boolean, .device = d.device()});
  for (int round = 0; round < kRounds; ++round) {
    const Tensor x(generator.normal(d.shape(), DType::f64, d.device()));
    const Tensor root = 1 + c * x;
    const Tensor possible = root > 0;
    const Tensor v = where(possible, root * root * root, 1.0);
    const Tensor level = 0.5 * square(x) + d * (1 - v + log(v));
    const Tensor accepted = pending & possible & (log(open_unit(d.shape(), generator, d.device())) < level);
    drawn = where(accepted, d * v, drawn);
    pending = pending & ~accepted;
  }
  return drawn;
}

/// What gamma draws at least: most numbers of a small concentration round to 0, which has no logarithm.
double smallest_normal(DType dtype) {
  switch (dtype) {
    case DType::f64: return std::numeric_limits<double>::min();
    case DType::f16: return 0x1p-14;
    default: return std::numeric_limits<float>::min();  // bf16 has the exponents of f32
  }
}

}  // namespace

Tensor exponential(const Shape& shape, Generator& generator, double rate, const TensorOptions& options) {
  const OperationScope scope("exponential");
  check_positive("exponential", "rate", rate);
  return rounded("exponential", -log1p(-unit(shape, generator, options.device)) / rate, options);
}

Tensor gumbel(const Shape& shape, Generator& generator, double location, double scale, const TensorOptions& options) {
  const OperationScope scope("gumbel");
  check_finite("gumbel", "location", location);
  check_positive("gumbel", "scale", scale);
  return rounded("gumbel", location - scale * log(-log(open_unit(shape, generator, options.device))), options);
}

Tensor laplace(const Shape& shape, Generator& generator, double location, double scale, const TensorOptions& options) {
  const OperationScope scope("laplace");
  check_finite("laplace", "location", location);
  check_positive("laplace", "scale", scale);
  const Tensor u = open_unit(shape, generator, options.device);
  return rounded("laplace", location + scale * where(u < 0.5, log(2 * u), -log(2 * (1 - u))), options);
}

Tensor cauchy(const Shape& shape, Generator& generator, double location, double scale, const TensorOptions& options) {
  const OperationScope scope("cauchy");
  check_finite("cauchy", "location", location);
  check_positive("cauchy", "scale", scale);
  const Tensor u = open_unit(shape, generator, options.device);
  return rounded("cauchy", location + scale * tan(std::numbers::pi * (u - 0.5)), options);
}

Tensor log_normal(const Shape& shape, Generator& generator, double mean, double standard_deviation,
                  const TensorOptions& options) {
  const OperationScope scope("log_normal");
  check_finite("log_normal", "mean", mean);
  check_positive("log_normal", "standard deviation", standard_deviation);
  const Tensor drawn(generator.normal(shape, DType::f64, options.device, mean, standard_deviation));
  return rounded("log_normal", exp(drawn), options);
}

Tensor randint(const Shape& shape, Generator& generator, std::int64_t low, std::int64_t high,
               const TensorOptions& options) {
  const OperationScope scope("randint");
  const DType dtype = options.dtype.value_or(DType::i64);
  if (is_floating(dtype) || dtype == DType::boolean)
    raise<DTypeError>("[randint] draws integers, not {}", to_string(dtype));
  if (options.requires_grad) raise<DTypeError>("[randint] integers have no gradients");
  if (low >= high) raise("[randint] there is no integer in [{}, {})", low, high);
  const auto count = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  if (count > std::uint64_t{1} << 53U) raise("[randint] [{}, {}) has more than 2^53 integers", low, high);
  require_fit("randint", low, dtype);
  require_fit("randint", high - 1, dtype);
  const Tensor places = floor(unit(shape, generator, options.device) * static_cast<double>(count));
  return cast(cast(places, DType::i64) + low, dtype);
}

// A number of a shape parameter below 1 is one of 1 more, times the power 1 / concentration of a uniform one.
Tensor gamma(const Tensor& concentration, Generator& generator) {
  const OperationScope scope("gamma", concentration);
  const DType dtype = concentration.dtype();
  if (!is_floating(dtype))
    raise<DTypeError>("[gamma] concentrations are {}: they must be of a floating type", to_string(dtype));
  const NoGrad no_graph;
  const Tensor given = cast(concentration, DType::f64);
  const Tensor valid = given > 0;
  const Tensor wide = where(valid, given, 1.0);
  const Tensor small = wide < 1;
  const Tensor drawn = gamma_above_one(where(small, wide + 1, wide), generator);
  const Tensor power = exp(log(open_unit(wide.shape(), generator, wide.device())) / wide);
  const Tensor result = maximum(where(small, drawn * power, drawn), smallest_normal(dtype));
  return cast(where(valid, result, std::numeric_limits<double>::quiet_NaN()), dtype);
}

}  // namespace tutti
