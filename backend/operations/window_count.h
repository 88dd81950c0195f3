// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace tutti {

/// Windows of a convolution or of pooling along one axis: kernels of elements `dilation` apart, every `stride`.
struct WindowAxis {
  std::int64_t length;
  std::int64_t kernel;
  std::int64_t stride;
  std::int64_t padding;  ///< elements added at each end
  std::int64_t dilation = 1;
};

/// How many there are: (length + 2 padding - dilation (kernel - 1) - 1) / stride + 1, and 0 where the first does not
/// fit. Kernel, stride and dilation are positive, the others not negative. ShapeError, naming the operation, for sizes
/// beyond 64 bits.
std::int64_t window_count(std::string_view operation, const WindowAxis&);

}  // namespace tutti
