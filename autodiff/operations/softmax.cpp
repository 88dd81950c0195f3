// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/promotion.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/error.h>
#include <tutti/backend/operations.h>

namespace tutti {

namespace {

// softmax: dx = y (dy - sum(dy y)); log_softmax: dx = dy - exp(y) sum(dy). One kernel, or composed when it is recorded.
Tensor gradient(SoftmaxKind kind, const Tensor& y, const Tensor& dy, std::int64_t axis) {
  if (!grad_enabled()) return Tensor(softmax_gradient(kind, y.array(), dy.array(), axis));
  if (kind == SoftmaxKind::softmax) return y * (dy - sum(dy * y, {axis}, true));
  return dy - exp(y) * sum(dy, {axis}, true);
}

Tensor apply_softmax(SoftmaxKind kind, std::string_view name, const Tensor& input, std::int64_t axis) {
  const OperationScope scope(name, input);
  if (is_axis_of_scalar(axis, input.shape())) return reshape(apply_softmax(kind, name, expand_dims(input, 0), 0), {});
  const Tensor x = promote_into(elementwise::Domain::floating, name, input);
  Array value = softmax(kind, x.array(), axis);
  const SavedTensor output{value, SavedTensor::kOutput};
  const Tensor inputs[] = {x};
  return record(name, std::move(value), inputs, [&] {
    return [kind, output, axis](const auto& restore, const Tensor& dy, InputGradients& gradients) {
      gradients.set(0, gradient(kind, restore(output), dy, axis));
    };
  });
}

}  // namespace

Tensor softmax(const Tensor& x, std::int64_t axis) { return apply_softmax(SoftmaxKind::softmax, "softmax", x, axis); }
Tensor log_softmax(const Tensor& x, std::int64_t axis) {
  return apply_softmax(SoftmaxKind::log_softmax, "log_softmax", x, axis);
}

}  // namespace tutti
