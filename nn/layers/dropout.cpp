// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/dropout.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>

namespace tutti {

Dropout::Dropout(double p, Generator& generator) : p_(p), source_(generator.next_u64()) {
  if (!(p >= 0 && p <= 1)) raise("[Dropout] p is {}: it must be in [0, 1]", p);
}

Tensor Dropout::compute(const Tensor& x) const { return dropout(x, p_, generator_of(x.device()), training()); }

Generator& Dropout::generator_of(Device device) const {
  while (by_device_.size() <= device.index) by_device_.push_back(source_.split(by_device_.size()));
  return by_device_[device.index];
}

}  // namespace tutti
