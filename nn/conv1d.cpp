// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/conv1d.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/nn/initialize.h>

#include <algorithm>

namespace tutti {

Conv1d::Conv1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel, Generator& generator,
               const Conv1dOptions& options) {
  if (std::min({in_channels, out_channels, kernel, options.stride, options.dilation}) < 1)
    raise<ShapeError>(
        "[Conv1d] channels, kernel, stride and dilation must be positive, got in {} and out {}, {}, {}, {}",
        in_channels, out_channels, kernel, options.stride, options.dilation);
  if (options.groups < 1 || in_channels % options.groups != 0 || out_channels % options.groups != 0)
    raise<ShapeError>("[Conv1d] {} groups must divide channels in {} and out {}", options.groups, in_channels,
                      out_channels);
  if (!is_floating(options.dtype))
    raise<DTypeError>("[Conv1d] needs a floating type, got {}", to_string(options.dtype));
  const Padding zeros = options.padding.resolve("Conv1d", kernel, options.stride, options.dilation);
  const std::int64_t both = std::min(zeros.before, zeros.after);
  geometry_ = {options.stride, both, options.dilation, options.groups};
  more_ = {zeros.before - both, zeros.after - both};
  const Shape shape{out_channels, in_channels / options.groups, kernel};
  weight = Tensor(Array::empty(shape, options.dtype, options.device), true);
  if (options.bias) bias = Tensor(Array::empty({out_channels}, options.dtype, options.device), true);
  initialize_layer(weight, bias, generator);
}

Tensor Conv1d::compute(const Tensor& x) const {
  const bool is_even = more_.before == 0 && more_.after == 0;
  return conv1d(is_even ? x : pad(x, {{}, {}, more_}), weight, bias, geometry_);
}

void Conv1d::visit(MemberVisitor& visitor) {
  visitor.parameter("weight", weight);
  visitor.parameter("bias", bias);
}

}  // namespace tutti
