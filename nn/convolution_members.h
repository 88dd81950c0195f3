// SPDX-License-Identifier: Apache-2.0
#pragma once

// Checks and members that modules of convolutions share, of any number of axes.

#include <tutti/autodiff/tensor.h>
#include <tutti/backend/random.h>

#include <cstdint>
#include <string_view>

namespace tutti {

struct ConvolutionMembers {
  std::string_view layer;  ///< name of the layer in errors
  std::int64_t in_channels;
  std::int64_t out_channels;
  std::int64_t groups;
  Dims kernel;
  Dims stride;
  Dims dilation;

  /// ShapeError unless all numbers are positive and groups divide the channels, DTypeError unless the type is floating.
  void check(DType) const;
  /// The weight [channels..., kernel...] and, if it is wanted, the bias [out_channels], as `initialize_layer` starts
  /// them.
  void make(Shape channels, DType, Device, Tensor& weight, Tensor* bias, Generator&) const;
};

}  // namespace tutti
