// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/conv2d.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/nn/initialize.h>

#include <algorithm>

namespace tutti {
namespace {

void check_extent(std::string_view what, const Extent2d& extent) {
  if (std::min(extent.height, extent.width) < 1)
    raise<ShapeError>("[Conv2d] {} must be at least 1, got {} x {}", what, extent.height, extent.width);
}

}  // namespace

Conv2d::Conv2d(std::int64_t in_channels, std::int64_t out_channels, Extent2d kernel, Generator& generator,
               const Conv2dOptions& options)
    : geometry_{options.stride.values(), {}, options.dilation.values(), options.groups} {
  if (in_channels <= 0 || out_channels <= 0)
    raise<ShapeError>("[Conv2d] channels must be positive, got in {} and out {}", in_channels, out_channels);
  check_extent("kernel", kernel);
  check_extent("stride", options.stride);
  check_extent("dilation", options.dilation);
  if (options.groups < 1 || in_channels % options.groups != 0 || out_channels % options.groups != 0)
    raise<ShapeError>("[Conv2d] {} groups must divide channels in {} and out {}", options.groups, in_channels,
                      out_channels);
  if (!is_floating(options.dtype))
    raise<DTypeError>("[Conv2d] needs a floating type, got {}", to_string(options.dtype));
  for (const std::size_t i : {0, 1}) {
    const AxisPadding& padding = i == 0 ? options.padding.rows : options.padding.columns;
    const Padding zeros = padding.resolve("Conv2d", kernel.values()[i], geometry_.stride[i], geometry_.dilation[i]);
    geometry_.padding[i] = std::min(zeros.before, zeros.after);
    more_[i] = {zeros.before - geometry_.padding[i], zeros.after - geometry_.padding[i]};
  }
  const Shape shape{out_channels, in_channels / options.groups, kernel.height, kernel.width};
  weight = Tensor(Array::empty(shape, options.dtype, options.device), true);
  if (options.bias) bias = Tensor(Array::empty({out_channels}, options.dtype, options.device), true);
  initialize_layer(weight, bias, generator);
}

Tensor Conv2d::compute(const Tensor& x) const {
  const auto& [rows, columns] = more_;
  const bool is_even = rows.before + rows.after + columns.before + columns.after == 0;
  return conv2d(is_even ? x : pad(x, {{}, {}, rows, columns}), weight, bias, geometry_);
}

void Conv2d::visit(MemberVisitor& visitor) {
  visitor.parameter("weight", weight);
  visitor.parameter("bias", bias);
}

}  // namespace tutti
