// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/raise.h>

namespace tutti {
namespace {

/// The node of x factor where kept, else 0: linear, and so its own gradient. Saves what was kept alone.
Tensor record_dropout(const Tensor& x, Array value, const Tensor& kept, double factor) {
  const Tensor inputs[] = {x};
  return record("dropout", std::move(value), inputs, [&] {
    return [saved = save_constant(kept), factor](const auto& restore, const Tensor& dy, InputGradients& gradients) {
      const Tensor mask = restore(saved);
      gradients.set(0, record_dropout(dy, dropout_gradient(mask.array(), factor, dy.array()), mask, factor));
    };
  });
}

}  // namespace

Tensor dropout(const Tensor& x, double p, Generator& generator, bool training) {
  const OperationScope scope("dropout", x);
  if (!(p >= 0 && p <= 1)) raise("[dropout] p is {}: it must be in [0, 1]", p);
  if (!is_floating(x.dtype())) raise<DTypeError>("[dropout] needs a floating type, got {}", to_string(x.dtype()));
  if (!training || p == 0) return x;
  const double factor = p < 1 ? 1 / (1 - p) : 1.0;
  auto [value, kept] = dropout(x.array(), 1 - p, factor, generator);
  return record_dropout(x, std::move(value), Tensor(std::move(kept)), factor);
}

}  // namespace tutti
