// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/operations.h>
#include <tutti/nn/layer.h>

#include <utility>

namespace tutti {

/// Images of another size, as `interpolate`: Upsample({.scale = {2}, .mode = Interpolation::linear}).
class Upsample : public Layer {
 public:
  explicit Upsample(InterpolateOptions options) : options_(std::move(options)) {}

  Tensor compute(const Tensor& x) const override { return interpolate(x, options_); }
  void visit(MemberVisitor&) override {}

 private:
  InterpolateOptions options_;
};

/// Channels as pixels: [n, c r r, h, w] -> [n, c, h r, w r].
class PixelShuffle : public Layer {
 public:
  explicit PixelShuffle(std::int64_t factor) : factor_(factor) {}

  Tensor compute(const Tensor& x) const override { return pixel_shuffle(x, factor_); }
  void visit(MemberVisitor&) override {}

 private:
  std::int64_t factor_;
};

/// Pixels as channels: [n, c, h r, w r] -> [n, c r r, h, w].
class PixelUnshuffle : public Layer {
 public:
  explicit PixelUnshuffle(std::int64_t factor) : factor_(factor) {}

  Tensor compute(const Tensor& x) const override { return pixel_unshuffle(x, factor_); }
  void visit(MemberVisitor&) override {}

 private:
  std::int64_t factor_;
};

}  // namespace tutti
