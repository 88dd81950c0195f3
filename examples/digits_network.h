// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/operations.h>
#include <tutti/nn/conv2d.h>
#include <tutti/nn/linear.h>

namespace digits {

/// A LeNet-style network for 8 x 8 grey images: two convolutions, one pooling, two dense layers. 38,282 parameters.
class Network : public tutti::Layer {
 public:
  explicit Network(tutti::Generator& random)
      : conv1_(1, 16, 3, random, {.padding = 1}),
        conv2_(16, 32, 3, random, {.padding = 1}),
        hidden_(32 * 4 * 4, 64, random),
        output_(64, 10, random) {}

  /// [n, 1, 8, 8] -> logits [n, 10]
  tutti::Tensor compute(const tutti::Tensor& images) const override {
    const tutti::Tensor edges = relu(conv1_(images));
    const tutti::Tensor shapes = max_pool2d(relu(conv2_(edges)));
    return output_(relu(hidden_(flatten(shapes, 1))));
  }

  void visit(tutti::MemberVisitor& v) override {
    v.module("conv1", conv1_);
    v.module("conv2", conv2_);
    v.module("hidden", hidden_);
    v.module("output", output_);
  }

 private:
  tutti::Conv2d conv1_;
  tutti::Conv2d conv2_;
  tutti::Linear hidden_;
  tutti::Linear output_;
};

}  // namespace digits
