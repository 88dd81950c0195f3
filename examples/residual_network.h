// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/operations.h>
#include <tutti/nn/conv2d.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/module_list.h>
#include <tutti/nn/normalization.h>

namespace digits {

/// relu(x + f(x)), f two convolutions with batch normalisation. Where the number of channels or the size changes, x
/// passes a convolution of one pixel. He et al., "Deep Residual Learning for Image Recognition" (2016).
class ResidualBlock : public tutti::Layer {
 public:
  ResidualBlock(std::int64_t in, std::int64_t out, std::int64_t stride, tutti::Generator& random)
      : projects_(in != out || stride != 1),
        conv1_(in, out, 3, random, {.stride = stride, .padding = 1, .bias = false}),
        norm1_(out),
        conv2_(out, out, 3, random, {.padding = 1, .bias = false}),
        norm2_(out),
        shortcut_(in, out, 1, random, {.stride = stride, .bias = false}) {}

  tutti::Tensor compute(const tutti::Tensor& x) const override {
    const tutti::Tensor inner = relu(norm1_(conv1_(x)));
    return relu((projects_ ? shortcut_(x) : x) + norm2_(conv2_(inner)));
  }

  void visit(tutti::MemberVisitor& v) override {
    v.module("conv1", conv1_);
    v.module("norm1", norm1_);
    v.module("conv2", conv2_);
    v.module("norm2", norm2_);
    if (projects_) v.module("shortcut", shortcut_);
  }

 private:
  bool projects_;
  tutti::Conv2d conv1_;
  tutti::BatchNorm norm1_;
  tutti::Conv2d conv2_;
  tutti::BatchNorm norm2_;
  tutti::Conv2d shortcut_;
};

/// A small ResNet for 8 x 8 grey images: three blocks, of 16, 32 and 64 channels.
class ResidualNetwork : public tutti::Layer {
 public:
  explicit ResidualNetwork(tutti::Generator& random)
      : stem_(1, 16, 3, random, {.padding = 1, .bias = false}), norm_(16), output_(64, 10, random) {
    blocks_.append(ResidualBlock(16, 16, 1, random));
    blocks_.append(ResidualBlock(16, 32, 2, random));
    blocks_.append(ResidualBlock(32, 64, 2, random));
  }

  /// [n, 1, 8, 8] -> logits [n, 10]
  tutti::Tensor compute(const tutti::Tensor& images) const override {
    tutti::Tensor x = relu(norm_(stem_(images)));
    for (const ResidualBlock& block : blocks_) x = block(x);
    return output_(mean(x, {2, 3}));
  }

  void visit(tutti::MemberVisitor& v) override {
    v.module("stem", stem_);
    v.module("norm", norm_);
    v.module("blocks", blocks_);
    v.module("output", output_);
  }

 private:
  tutti::Conv2d stem_;
  tutti::BatchNorm norm_;
  tutti::ModuleList<ResidualBlock> blocks_;
  tutti::Linear output_;
};

}  // namespace digits
