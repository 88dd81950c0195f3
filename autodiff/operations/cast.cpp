// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/error.h>
#include <tutti/backend/operations.h>

namespace tutti {

Tensor cast(const Tensor& x, DType dtype) {
  const OperationScope scope("cast", x);
  if (x.dtype() == dtype) return x;
  Array value = x.array().cast(dtype);
  if (!is_floating(dtype)) return Tensor(std::move(value));
  const Tensor inputs[] = {x};
  return record("cast", std::move(value), inputs, [&] {
    return [from = x.dtype()](const auto&, const Tensor& dy, InputGradients& gradients) {
      gradients.set(0, cast(dy, from));
    };
  });
}

Tensor to(const Tensor& x, Device device) {
  const OperationScope scope("to", x);
  if (x.device() == device) return x;
  const Tensor inputs[] = {x};
  return record("to", x.array().to(device), inputs, [&] {
    return [from = x.device()](const auto&, const Tensor& dy, InputGradients& gradients) {
      gradients.set(0, to(dy, from));
    };
  });
}

}  // namespace tutti
