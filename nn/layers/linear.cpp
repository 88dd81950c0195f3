// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/linear.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/raise.h>
#include <tutti/nn/initialize.h>

namespace tutti {

Linear::Linear(std::int64_t in, std::int64_t out, Generator& generator, const LinearOptions& options)
    : activation_(options.activation) {
  if (in <= 0 || out <= 0) raise<ShapeError>("[Linear] sizes must be positive, got in {} and out {}", in, out);
  if (!is_floating(options.dtype))
    raise<DTypeError>("[Linear] needs a floating type, got {}", to_string(options.dtype));
  weight = Tensor(Array::empty({out, in}, options.dtype, options.device), true);
  if (options.bias) bias = Tensor(Array::empty({out}, options.dtype, options.device), true);
  initialize_layer(weight, bias, generator);
}

Tensor Linear::compute(const Tensor& x) const { return linear(x, weight, bias, activation_); }

void Linear::visit(MemberVisitor& visitor) {
  visitor.parameter("weight", weight);
  visitor.parameter("bias", bias);
}

}  // namespace tutti
