// SPDX-License-Identifier: Apache-2.0
#pragma once

// Pooling to a size, whatever that of the input. Windows and errors are those of the operations.

#include <tutti/autodiff/operations.h>
#include <tutti/nn/layer.h>
#include <tutti/nn/layers/extent.h>

#include <cstddef>

namespace tutti {

/// A layer that is one operation to a size.
template <std::size_t axes, auto pool> class AdaptivePooling : public Layer {
 public:
  explicit AdaptivePooling(Extent<axes> size) : size_(size) {}

  Tensor compute(const Tensor& x) const override { return pool(x, size_.values()); }
  void visit(MemberVisitor&) override {}

 private:
  Extent<axes> size_;
};

/// The mean of each window: [n, c, l] -> [n, c, size].
class AdaptiveAvgPool1d : public AdaptivePooling<1, adaptive_avg_pool1d> {
 public:
  using AdaptivePooling::AdaptivePooling;
};

/// The mean of each window: [n, c, h, w] -> [n, c, size...].
class AdaptiveAvgPool2d : public AdaptivePooling<2, adaptive_avg_pool2d> {
 public:
  using AdaptivePooling::AdaptivePooling;
};

/// The mean of each window: [n, c, d, h, w] -> [n, c, size...].
class AdaptiveAvgPool3d : public AdaptivePooling<3, adaptive_avg_pool3d> {
 public:
  using AdaptivePooling::AdaptivePooling;
};

/// The largest of each window: [n, c, l] -> [n, c, size].
class AdaptiveMaxPool1d : public AdaptivePooling<1, adaptive_max_pool1d> {
 public:
  using AdaptivePooling::AdaptivePooling;
};

/// The largest of each window: [n, c, h, w] -> [n, c, size...].
class AdaptiveMaxPool2d : public AdaptivePooling<2, adaptive_max_pool2d> {
 public:
  using AdaptivePooling::AdaptivePooling;
};

/// The largest of each window: [n, c, d, h, w] -> [n, c, size...].
class AdaptiveMaxPool3d : public AdaptivePooling<3, adaptive_max_pool3d> {
 public:
  using AdaptivePooling::AdaptivePooling;
};

}  // namespace tutti
