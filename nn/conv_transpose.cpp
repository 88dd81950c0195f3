// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/conv_transpose.h>

#include <tutti/backend/error.h>
#include <tutti/nn/convolution_members.h>

#include <algorithm>

namespace tutti {

namespace {

void check_paddings(const ConvolutionMembers& members, const Dims& padding, const Dims& output_padding) {
  for (std::size_t i = 0; i < padding.size(); ++i)
    if (padding[i] < 0 || output_padding[i] < 0 ||
        output_padding[i] >= std::max(members.stride[i], members.dilation[i]))
      raise<ShapeError>(
          "[{}] padding {} and output_padding {} must be at least 0, the latter less than stride {} or dilation {}",
          members.layer, padding[i], output_padding[i], members.stride[i], members.dilation[i]);
}

template <class Layer, class Options> void start(Layer& layer, const ConvolutionMembers& members, const Dims& padding,
                                                 const Dims& output_padding, const Options& options,
                                                 Generator& generator) {
  members.check(options.dtype);
  check_paddings(members, padding, output_padding);
  members.make({members.in_channels, members.out_channels / members.groups}, options.dtype, options.device,
               layer.weight, options.bias ? &layer.bias : nullptr, generator);
}

void visit_members(MemberVisitor& visitor, Tensor& weight, Tensor& bias) {
  visitor.parameter("weight", weight);
  visitor.parameter("bias", bias);
}

}  // namespace

ConvTranspose1d::ConvTranspose1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel,
                                 Generator& generator, const ConvTranspose1dOptions& options)
    : geometry_{options.stride, options.padding, options.output_padding, options.dilation, options.groups} {
  const ConvolutionMembers members{"ConvTranspose1d", in_channels,      out_channels,      options.groups,
                                   {kernel},          {options.stride}, {options.dilation}};
  start(*this, members, {options.padding}, {options.output_padding}, options, generator);
}

ConvTranspose2d::ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels, Extent2d kernel,
                                 Generator& generator, const ConvTranspose2dOptions& options)
    : geometry_{options.stride.values(), options.padding.values(), options.output_padding.values(),
                options.dilation.values(), options.groups} {
  const ConvolutionMembers members{"ConvTranspose2d",       in_channels,           out_channels,
                                   options.groups,          Dims(kernel.values()), Dims(geometry_.stride),
                                   Dims(geometry_.dilation)};
  start(*this, members, Dims(geometry_.padding), Dims(geometry_.output_padding), options, generator);
}

ConvTranspose3d::ConvTranspose3d(std::int64_t in_channels, std::int64_t out_channels, Extent3d kernel,
                                 Generator& generator, const ConvTranspose3dOptions& options)
    : geometry_{options.stride.values(), options.padding.values(), options.output_padding.values(),
                options.dilation.values(), options.groups} {
  const ConvolutionMembers members{"ConvTranspose3d",       in_channels,           out_channels,
                                   options.groups,          Dims(kernel.values()), Dims(geometry_.stride),
                                   Dims(geometry_.dilation)};
  start(*this, members, Dims(geometry_.padding), Dims(geometry_.output_padding), options, generator);
}

void ConvTranspose1d::visit(MemberVisitor& visitor) { visit_members(visitor, weight, bias); }
void ConvTranspose2d::visit(MemberVisitor& visitor) { visit_members(visitor, weight, bias); }
void ConvTranspose3d::visit(MemberVisitor& visitor) { visit_members(visitor, weight, bias); }

}  // namespace tutti
