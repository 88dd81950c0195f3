// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/calls/kernel_arguments.h>
#include <tutti/backend/random.h>
#include <tutti/nn/layer.h>

namespace tutti {

struct LinearOptions {
  bool bias = true;
  DType dtype = DType::f32;
  Device device = cpu(0);
  LinearActivation activation = LinearActivation::none;  ///< done in the product's own pass, unlike a module after it
};

/// y = activation(x W^T + b) over the last axis: [..., in] -> [..., out]. Starts as described at `initialize_layer`.
class Linear : public Layer {
 public:
  /// Throws ShapeError unless both sizes are positive, DTypeError unless the type is floating.
  Linear(std::int64_t in, std::int64_t out, Generator&, const LinearOptions& = {});

  Tensor compute(const Tensor& x) const override;
  void visit(MemberVisitor&) override;

  Tensor weight;  ///< [out, in]
  Tensor bias;    ///< [out]; undefined without bias

 private:
  LinearActivation activation_;
};

}  // namespace tutti
