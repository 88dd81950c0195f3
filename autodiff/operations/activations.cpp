// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/operations/elementwise_operations.h>

#include <tutti/autodiff/operations/elementwise_recording.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/raise.h>

namespace tutti {

using detail::record_unary;

namespace {

// One number for each channel, shaped to lie along axis 1; other slopes as they are.
Tensor along_channels(const Tensor& slope, const Tensor& x) {
  if (slope.is_weak_scalar() || slope.rank() != 1 || slope.size() == 1 || x.is_weak_scalar() || x.rank() < 2)
    return slope;
  if (slope.length(0) != x.length(1))
    raise<ShapeError>(
        "[prelu] the slope {} has not one number for each of the {} channels of {}, axis 1; shape it to be broadcast "
        "along another axis",
        to_string(slope.shape()), x.length(1), to_string(x.shape()));
  Shape shape(x.rank(), 1);
  shape[1] = slope.length(0);
  return reshape(slope, shape);
}

}  // namespace

Tensor relu6(const Tensor& x) {
  const OperationScope scope("relu6", x);
  return hard_tanh(x, 0.0, 6.0);
}
Tensor prelu(const Tensor& x, const Tensor& slope) {
  const OperationScope scope("prelu", x, slope);
  return where(x > 0, x, along_channels(slope, x) * x);
}
Tensor mish(const Tensor& x) {
  const OperationScope scope("mish", x);
  return x * tanh(softplus(x));
}

Tensor elu(const Tensor& x, double alpha) { return record_unary(elementwise::Elu{alpha, 1.0}, x); }
Tensor celu(const Tensor& x, double alpha) {
  const OperationScope scope("celu", x);
  return record_unary(elementwise::Elu{alpha, 1.0 / alpha}, x);
}
Tensor selu(const Tensor& x) {
  const OperationScope scope("selu", x);
  return 1.0507009873554804934 * elu(x, 1.6732632423543772848);
}

// dx = dy / (1 + |x|)^2. As the sum of a quotient's two gradients nothing would be left of it far from 0.
Tensor softsign(const Tensor& input) {
  const OperationScope scope("softsign", input);
  const Tensor x = promote_into(elementwise::Domain::floating, "softsign", input);
  Array value;
  {
    const NoGrad no_graph;
    value = (x / (1 + abs(x))).array();
  }
  const Tensor inputs[] = {x};
  return record("softsign", std::move(value), inputs, [&] {
    return [saved = save(x, 0)](const auto& restore, const Tensor& dy, InputGradients& gradients) {
      const Tensor distance = 1 + abs(restore(saved));
      gradients.set(0, dy / distance / distance);
    };
  });
}
Tensor log_sigmoid(const Tensor& x) {
  const OperationScope scope("log_sigmoid", x);
  return -softplus(-x);
}

Tensor hard_sigmoid(const Tensor& x) {
  const OperationScope scope("hard_sigmoid", x);
  return hard_tanh(x + 3, 0.0, 6.0) / 6;
}
Tensor hard_shrink(const Tensor& x, double edge) {
  const OperationScope scope("hard_shrink", x);
  return where(abs(x) <= edge, 0, x);
}
Tensor soft_shrink(const Tensor& x, double edge) {
  const OperationScope scope("soft_shrink", x);
  return x - clip(x, -edge, edge);
}
Tensor threshold(const Tensor& x, double edge, double value) {
  const OperationScope scope("threshold", x);
  return where(x <= edge, value, x);
}

}  // namespace tutti
