// SPDX-License-Identifier: Apache-2.0
// The one header that those of Debian's libtorch-dev 1.13 include and do not contain: what reducer.hpp needs of it.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

namespace torch::distributed::autograd {

struct DistAutogradContext {
  using GradCallback = std::function<bool(at::Tensor&)>;
};
using ContextPtr = std::shared_ptr<DistAutogradContext>;

}  // namespace torch::distributed::autograd
