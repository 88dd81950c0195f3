// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/activation.h>

#include <tutti/autodiff/autocast.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/raise.h>

namespace tutti {

Tensor glu(const Tensor& x, std::int64_t axis) {
  const OperationScope scope("glu", x);
  const std::int64_t length = x.length(axis);
  if (length % 2 != 0) raise<ShapeError>("[glu] axis {} has {} elements: halves need an even number", axis, length);
  return slice(x, axis, 0, length / 2) * sigmoid(slice(x, axis, length / 2, length));
}

Tensor tanhshrink(const Tensor& x) {
  const OperationScope scope("tanhshrink", x);
  return x - tanh(x);
}

Tensor softmin(const Tensor& x, std::int64_t axis) {
  const OperationScope scope("softmin", x);
  return softmax(-autocast("softmin", x), axis);
}

PReLU::PReLU(std::int64_t channels, const PReLUOptions& options) {
  if (channels <= 0) raise<ShapeError>("[PReLU] the number of channels must be positive, got {}", channels);
  if (!is_floating(options.dtype)) raise<DTypeError>("[PReLU] needs a floating type, got {}", to_string(options.dtype));
  weight = Tensor(Array::full({channels}, options.slope, options.dtype, options.device), true);
}

Tensor PReLU::compute(const Tensor& x) const {
  const OperationScope scope("PReLU", x, weight);
  const std::int64_t channels = weight.length(0);
  Shape shape(x.rank(), 1);
  if (channels > 1) {
    if (x.rank() < 2 || x.length(1) != channels)
      raise<ShapeError>("[PReLU] needs x [n, {}, ...], got {}", channels, to_string(x.shape()));
    shape[1] = channels;
  }
  return prelu(x, reshape(weight, shape));
}

void PReLU::visit(MemberVisitor& visitor) { visitor.parameter("weight", weight); }

}  // namespace tutti
