// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/layers/convolution.h>

#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/window_shapes.h>
#include <tutti/backend/raise.h>
#include <tutti/nn/initialize.h>

#include <algorithm>
#include <string>

namespace tutti {
namespace {

/// What a convolution is made from, of any number of axes, and of either direction.
struct Plan {
  std::string layer;  // its name in errors
  std::int64_t in_channels;
  std::int64_t out_channels;
  std::int64_t groups;
  Dims kernel;
  Dims stride;
  Dims dilation;
};

template <std::size_t axes, class Options> Plan plan(const char* layer, std::int64_t in_channels,
                                                     std::int64_t out_channels, const Extent<axes>& kernel,
                                                     const Options& options) {
  return {fmt::format("{}{}d", layer, axes),
          in_channels,
          out_channels,
          options.groups,
          dims_of(kernel.values()),
          dims_of(options.stride.values()),
          dims_of(options.dilation.values())};
}

void check(const Plan& plan, DType dtype) {
  const auto& [layer, in_channels, out_channels, groups, kernel, stride, dilation] = plan;
  if (in_channels < 1 || out_channels < 1)
    raise<ShapeError>("[{}] channels must be positive, got in {} and out {}", layer, in_channels, out_channels);
  for (const auto& [what, numbers] : {std::pair{"kernel", &kernel}, {"stride", &stride}, {"dilation", &dilation}})
    if (std::ranges::any_of(*numbers, [](std::int64_t number) { return number < 1; }))
      raise<ShapeError>("[{}] {} must be at least 1, got {}", layer, what, to_string(*numbers));
  if (groups < 1 || in_channels % groups != 0 || out_channels % groups != 0)
    raise<ShapeError>("[{}] {} groups must divide channels in {} and out {}", layer, groups, in_channels, out_channels);
  if (!is_floating(dtype)) raise<DTypeError>("[{}] needs a floating type, got {}", layer, to_string(dtype));
}

void check_paddings(const Plan& plan, const Dims& padding, const Dims& output_padding) {
  for (std::size_t i = 0; i < padding.size(); ++i)
    if (padding[i] < 0 || output_padding[i] < 0 || output_padding[i] >= std::max(plan.stride[i], plan.dilation[i]))
      raise<ShapeError>(
          "[{}] padding {} and output_padding {} must be at least 0, the latter less than stride {} or dilation {}",
          plan.layer, padding[i], output_padding[i], plan.stride[i], plan.dilation[i]);
}

/// Makes the weight [channels..., kernel...] and, if it is wanted, the bias [out_channels].
template <class Module, class Options>
void make_members(Module& layer, const Plan& plan, Shape weight, const Options& options, Generator& generator) {
  for (const std::int64_t length : plan.kernel) weight.push_back(length);
  layer.weight = Tensor(Array::empty(weight, options.dtype, options.device), true);
  if (options.bias) layer.bias = Tensor(Array::empty({plan.out_channels}, options.dtype, options.device), true);
  initialize_layer(layer.weight, layer.bias, generator);
}

std::int64_t& on_axis(std::int64_t& number, std::size_t) { return number; }
template <std::size_t axes> std::int64_t& on_axis(std::array<std::int64_t, axes>& numbers, std::size_t axis) {
  return numbers[axis];
}

}  // namespace

template <std::size_t axes>
Convolution<axes>::Convolution(std::int64_t in_channels, std::int64_t out_channels, Extent<axes> kernel,
                               Generator& generator, const ConvOptions<axes>& options)
    : geometry_{options.stride.values(), {}, options.dilation.values(), options.groups} {
  const Plan made = plan("Conv", in_channels, out_channels, kernel, options);
  check(made, options.dtype);
  for (std::size_t axis = 0; axis < axes; ++axis) {
    const Padding zeros =
        options.padding[axis].resolve(made.layer, kernel[axis], options.stride[axis], options.dilation[axis]);
    const std::int64_t both = std::min(zeros.before, zeros.after);
    on_axis(geometry_.padding, axis) = both;
    more_[axis] = {zeros.before - both, zeros.after - both};
  }
  make_members(*this, made, {out_channels, in_channels / options.groups}, options, generator);
}

template <std::size_t axes> Tensor Convolution<axes>::padded(const Tensor& x) const {
  if (std::ranges::all_of(more_, [](const Padding& zeros) { return zeros.before + zeros.after == 0; })) return x;
  std::array<Padding, axes + 2> zeros{};
  std::ranges::copy(more_, zeros.begin() + 2);
  return pad(x, zeros);
}

template <std::size_t axes> void Convolution<axes>::visit(MemberVisitor& visitor) {
  visitor.parameter("weight", weight);
  visitor.parameter("bias", bias);
}

template <std::size_t axes>
TransposedConvolution<axes>::TransposedConvolution(std::int64_t in_channels, std::int64_t out_channels,
                                                   Extent<axes> kernel, Generator& generator,
                                                   const ConvTransposeOptions<axes>& options)
    : geometry_{options.stride.values(), options.padding.values(), options.output_padding.values(),
                options.dilation.values(), options.groups} {
  const Plan made = plan("ConvTranspose", in_channels, out_channels, kernel, options);
  check(made, options.dtype);
  check_paddings(made, dims_of(geometry_.padding), dims_of(geometry_.output_padding));
  make_members(*this, made, {in_channels, out_channels / options.groups}, options, generator);
}

template <std::size_t axes> void TransposedConvolution<axes>::visit(MemberVisitor& visitor) {
  visitor.parameter("weight", weight);
  visitor.parameter("bias", bias);
}

template class Convolution<1>;
template class Convolution<2>;
template class Convolution<3>;
template class TransposedConvolution<1>;
template class TransposedConvolution<2>;
template class TransposedConvolution<3>;

}  // namespace tutti
