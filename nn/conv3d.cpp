// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/conv3d.h>

#include <tutti/autodiff/operations.h>
#include <tutti/nn/convolution_members.h>

#include <algorithm>

namespace tutti {

Conv3d::Conv3d(std::int64_t in_channels, std::int64_t out_channels, Extent3d kernel, Generator& generator,
               const Conv3dOptions& options)
    : geometry_{options.stride.values(), {}, options.dilation.values(), options.groups} {
  const ConvolutionMembers members{.layer = "Conv3d",
                                   .in_channels = in_channels,
                                   .out_channels = out_channels,
                                   .groups = options.groups,
                                   .kernel = Dims(kernel.values()),
                                   .stride = Dims(geometry_.stride),
                                   .dilation = Dims(geometry_.dilation)};
  members.check(options.dtype);
  const AxisPadding padding[] = {options.padding.depth, options.padding.rows, options.padding.columns};
  for (std::size_t i = 0; i < 3; ++i) {
    const Padding zeros = padding[i].resolve("Conv3d", kernel.values()[i], geometry_.stride[i], geometry_.dilation[i]);
    geometry_.padding[i] = std::min(zeros.before, zeros.after);
    more_[i] = {zeros.before - geometry_.padding[i], zeros.after - geometry_.padding[i]};
  }
  members.make({out_channels, in_channels / options.groups}, options.dtype, options.device, weight,
               options.bias ? &bias : nullptr, generator);
}

Tensor Conv3d::compute(const Tensor& x) const {
  const bool is_even = std::ranges::all_of(more_, [](const Padding& zeros) { return zeros.before + zeros.after == 0; });
  return conv3d(is_even ? x : pad(x, {{}, {}, more_[0], more_[1], more_[2]}), weight, bias, geometry_);
}

void Conv3d::visit(MemberVisitor& visitor) {
  visitor.parameter("weight", weight);
  visitor.parameter("bias", bias);
}

}  // namespace tutti
