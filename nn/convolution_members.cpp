// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/convolution_members.h>

#include <tutti/backend/error.h>
#include <tutti/nn/initialize.h>

#include <algorithm>

namespace tutti {

void ConvolutionMembers::check(DType dtype) const {
  if (in_channels < 1 || out_channels < 1)
    raise<ShapeError>("[{}] channels must be positive, got in {} and out {}", layer, in_channels, out_channels);
  for (const auto& [what, numbers] : {std::pair{"kernel", &kernel}, {"stride", &stride}, {"dilation", &dilation}})
    if (std::ranges::any_of(*numbers, [](std::int64_t number) { return number < 1; }))
      raise<ShapeError>("[{}] {} must be at least 1, got {}", layer, what, to_string(*numbers));
  if (groups < 1 || in_channels % groups != 0 || out_channels % groups != 0)
    raise<ShapeError>("[{}] {} groups must divide channels in {} and out {}", layer, groups, in_channels, out_channels);
  if (!is_floating(dtype)) raise<DTypeError>("[{}] needs a floating type, got {}", layer, to_string(dtype));
}

void ConvolutionMembers::make(Shape channels, DType dtype, Device device, Tensor& weight, Tensor* bias,
                              Generator& generator) const {
  for (const std::int64_t length : kernel) channels.push_back(length);
  weight = Tensor(Array::empty(channels, dtype, device), true);
  if (bias != nullptr) *bias = Tensor(Array::empty({out_channels}, dtype, device), true);
  initialize_layer(weight, bias != nullptr ? *bias : Tensor(), generator);
}

}  // namespace tutti
