// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>

namespace tutti {

Tensor dropout(const Tensor& x, double p, Generator& generator, bool training) {
  if (!(p >= 0 && p <= 1)) raise("[dropout] p is {}: it must be in [0, 1]", p);
  if (!is_floating(x.dtype())) raise<DTypeError>("[dropout] needs a floating type, got {}", to_string(x.dtype()));
  if (!training || p == 0) return x;
  const Tensor kept(generator.bernoulli(x.shape(), 1 - p, x.device()));
  const Tensor masked = where(kept, x, 0.0);
  return p < 1 ? masked * (1 / (1 - p)) : masked;
}

}  // namespace tutti
