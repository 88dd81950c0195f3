// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operation_scope.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>

namespace tutti {
namespace {

/// factor x where kept, else 0: linear, and so its own gradient. One node, which saves the mask alone.
Tensor keep_scaled(const Tensor& x, const Tensor& kept, double factor) {
  Array value;
  {
    const NoGrad no_graph;  // the factor may be infinite in x's type: nothing dropped shall meet it
    value = (where(kept, x * factor, 0.0)).array();
  }
  const Tensor inputs[] = {x};
  return record("dropout", std::move(value), inputs, [&] {
    return [saved = save_constant(kept), factor](const auto& restore, const Tensor& dy, InputGradients& gradients) {
      gradients.set(0, keep_scaled(dy, restore(saved), factor));
    };
  });
}

}  // namespace

Tensor dropout(const Tensor& x, double p, Generator& generator, bool training) {
  const OperationScope scope("dropout", x);
  if (!(p >= 0 && p <= 1)) raise("[dropout] p is {}: it must be in [0, 1]", p);
  if (!is_floating(x.dtype())) raise<DTypeError>("[dropout] needs a floating type, got {}", to_string(x.dtype()));
  if (!training || p == 0) return x;
  const Tensor kept(generator.bernoulli(x.shape(), 1 - p, x.device()));
  return keep_scaled(x, kept, p < 1 ? 1 / (1 - p) : 1.0);
}

}  // namespace tutti
