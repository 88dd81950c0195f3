// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/pooling.h>

#include <tutti/backend/raise.h>

namespace tutti {

Tensor GlobalAvgPool2d::compute(const Tensor& x) const {
  if (x.rank() != 4) raise<ShapeError>("[GlobalAvgPool2d] input [n, c, h, w] is needed, not {}", to_string(x.shape()));
  return mean(x, {2, 3}, true);
}

}  // namespace tutti
