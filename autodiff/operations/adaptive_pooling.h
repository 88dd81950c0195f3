// SPDX-License-Identifier: Apache-2.0
#pragma once

// Pooling to a size: window i of `size` along an axis of `length` is [floor(i length / size), ceil((i + 1) length /
// size)), as in torch.nn.functional. Sequences [n, c, l], images [n, c, h, w] and volumes [n, c, d, h, w] of floating
// types; bf16 and f16 are computed in f32 and rounded once. Differentiable any number of times. DTypeError for other
// types; ShapeError for another rank, sizes below 1 and empty axes.

#include <tutti/autodiff/tensor.h>

#include <array>
#include <cstdint>

namespace tutti {

/// The mean of each window: [n, c, h, w] -> [n, c, size...].
Tensor adaptive_avg_pool1d(const Tensor& input, std::int64_t size);
Tensor adaptive_avg_pool2d(const Tensor& input, const std::array<std::int64_t, 2>& size);
Tensor adaptive_avg_pool3d(const Tensor& input, const std::array<std::int64_t, 3>& size);

/// The largest of each window, whose gradient goes to the first such; NaN wins.
Tensor adaptive_max_pool1d(const Tensor& input, std::int64_t size);
Tensor adaptive_max_pool2d(const Tensor& input, const std::array<std::int64_t, 2>& size);
Tensor adaptive_max_pool3d(const Tensor& input, const std::array<std::int64_t, 3>& size);

}  // namespace tutti
