// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/calls/operand_checks.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/operations/widening.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>

namespace tutti {
namespace {

constexpr std::string_view kChannelsName = "normalize_channels";

void check_channels(const Array& input) {
  checks::require_defined(kChannelsName, input);
  checks::require_floating(kChannelsName, input);
  if (input.rank() < 2 || input.size() == 0)
    raise<ShapeError>("[{}] {} has no values of channels", kChannelsName, checks::describe(input));
}

/// A number for each channel, in the type that is computed in; or undefined.
Array by_channel(std::string_view operand, const Array& input, const Array& numbers) {
  if (!numbers.defined()) return numbers;
  checks::require_same_device(kChannelsName, input, numbers);
  checks::require_dtype(kChannelsName, numbers, computed_in(input.dtype()));
  checks::require_shape(kChannelsName, operand, numbers, {input.length(1)});
  return numbers.contiguous();
}

/// As the kernels take it: [n, channels, size], contiguous, and widened where they take no narrow dtype.
Array planes(const Array& x) {
  const bool is_taken =
      !is_narrow(x.dtype()) || backend_for(x.device()).takes_narrow(FusedKernel::normalize_channels, x.dtype());
  return (is_taken ? x : widened(x))
      .contiguous()
      .reshape({x.length(0), x.length(1), x.size() / (x.length(0) * x.length(1))});
}

}  // namespace

void Backend::normalize_channels(double, const Array&, const Array&, const Array&, const Array&, const Array&,
                                 const Array&) {
  raise<DeviceError>("[normalize_channels] this kind of device has no kernel for it");
}

void Backend::normalize_channels_gradient(double, const Array&, const Array&, const Array&, const Array&, const Array&,
                                          const Array&, const Array&, const Array&) {
  raise<DeviceError>("[normalize_channels_gradient] this kind of device has no kernel for it");
}

NormalizedChannels normalize_channels(double epsilon, const Array& input, const Array& weight, const Array& bias) {
  check_channels(input);
  const Array x = planes(input);
  const Shape channels{input.length(1)};
  const DType wide = computed_in(x.dtype());
  NormalizedChannels result{Array::empty(x.shape(), x.dtype(), x.device()), Array::empty(channels, wide, x.device()),
                            Array::empty(channels, wide, x.device())};
  backend_for(x.device())
      .normalize_channels(epsilon, x, by_channel("the weight", input, weight), by_channel("the bias", input, bias),
                          result.output, result.mean, result.variance);
  result.output = result.output.reshape(input.shape()).cast(input.dtype());
  return result;
}

ChannelGradients normalize_channels_gradient(double epsilon, const Array& input, const Array& weight, const Array& mean,
                                             const Array& variance, const Array& gradient,
                                             const ChannelGradientsWanted& wanted) {
  check_channels(input);
  checks::require_alike(kChannelsName, input, gradient);
  checks::require_shape(kChannelsName, "the gradient", gradient, input.shape());
  const Array x = planes(input);
  const Shape channels{input.length(1)};
  const auto of_channels = [&](bool is_wanted, const Array& place) {
    return is_wanted ? checks::output(kChannelsName, place, channels, computed_in(x.dtype()), x.device()) : Array();
  };
  ChannelGradients found{wanted.input ? Array::empty(x.shape(), x.dtype(), x.device()) : Array(),
                         of_channels(wanted.weight, wanted.weight_place), of_channels(wanted.bias, wanted.bias_place)};
  backend_for(x.device())
      .normalize_channels_gradient(epsilon, x, by_channel("the weight", input, weight),
                                   by_channel("the mean", input, mean), by_channel("the variance", input, variance),
                                   planes(gradient), found.input, found.weight, found.bias);
  if (found.input.defined()) found.input = found.input.reshape(input.shape()).cast(input.dtype());
  return found;
}

}  // namespace tutti
