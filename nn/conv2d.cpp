// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/conv2d.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/nn/initialize.h>

#include <algorithm>

namespace tutti {
namespace {

void check_extent(std::string_view what, const Extent2d& extent, std::int64_t least) {
  if (std::min(extent.height, extent.width) < least)
    raise<ShapeError>("[Conv2d] {} must be at least {}, got {} x {}", what, least, extent.height, extent.width);
}

}  // namespace

Conv2d::Conv2d(std::int64_t in_channels, std::int64_t out_channels, Extent2d kernel, Generator& generator,
               const Conv2dOptions& options)
    : geometry_{options.stride.values(), options.padding.values(), options.dilation.values()} {
  if (in_channels <= 0 || out_channels <= 0)
    raise<ShapeError>("[Conv2d] channels must be positive, got in {} and out {}", in_channels, out_channels);
  check_extent("kernel", kernel, 1);
  check_extent("stride", options.stride, 1);
  check_extent("padding", options.padding, 0);
  check_extent("dilation", options.dilation, 1);
  if (!is_floating(options.dtype))
    raise<DTypeError>("[Conv2d] needs a floating type, got {}", to_string(options.dtype));
  const Shape shape{out_channels, in_channels, kernel.height, kernel.width};
  weight = Tensor(Array::empty(shape, options.dtype, options.device), true);
  if (options.bias) bias = Tensor(Array::empty({out_channels}, options.dtype, options.device), true);
  initialize_layer(weight, bias, generator);
}

Tensor Conv2d::forward(const Tensor& x) const { return conv2d(x, weight, bias, geometry_); }

void Conv2d::visit(MemberVisitor& visitor) {
  visitor.parameter("weight", weight);
  visitor.parameter("bias", bias);
}

}  // namespace tutti
