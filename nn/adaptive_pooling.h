// SPDX-License-Identifier: Apache-2.0
#pragma once

// Pooling to a size, whatever that of the input. Windows and errors are those of the operations.

#include <tutti/autodiff/operations.h>
#include <tutti/nn/extent2d.h>
#include <tutti/nn/extent3d.h>
#include <tutti/nn/layer.h>

namespace tutti {

/// The mean of each window: [n, c, l] -> [n, c, size].
class AdaptiveAvgPool1d : public Layer {
 public:
  explicit AdaptiveAvgPool1d(std::int64_t size) : size_(size) {}

  Tensor compute(const Tensor& x) const override { return adaptive_avg_pool1d(x, size_); }
  void visit(MemberVisitor&) override {}

 private:
  std::int64_t size_;
};

/// The mean of each window: [n, c, h, w] -> [n, c, size...].
class AdaptiveAvgPool2d : public Layer {
 public:
  explicit AdaptiveAvgPool2d(Extent2d size) : size_(size) {}

  Tensor compute(const Tensor& x) const override { return adaptive_avg_pool2d(x, size_.values()); }
  void visit(MemberVisitor&) override {}

 private:
  Extent2d size_;
};

/// The mean of each window: [n, c, d, h, w] -> [n, c, size...].
class AdaptiveAvgPool3d : public Layer {
 public:
  explicit AdaptiveAvgPool3d(Extent3d size) : size_(size) {}

  Tensor compute(const Tensor& x) const override { return adaptive_avg_pool3d(x, size_.values()); }
  void visit(MemberVisitor&) override {}

 private:
  Extent3d size_;
};

/// The largest of each window: [n, c, l] -> [n, c, size].
class AdaptiveMaxPool1d : public Layer {
 public:
  explicit AdaptiveMaxPool1d(std::int64_t size) : size_(size) {}

  Tensor compute(const Tensor& x) const override { return adaptive_max_pool1d(x, size_); }
  void visit(MemberVisitor&) override {}

 private:
  std::int64_t size_;
};

/// The largest of each window: [n, c, h, w] -> [n, c, size...].
class AdaptiveMaxPool2d : public Layer {
 public:
  explicit AdaptiveMaxPool2d(Extent2d size) : size_(size) {}

  Tensor compute(const Tensor& x) const override { return adaptive_max_pool2d(x, size_.values()); }
  void visit(MemberVisitor&) override {}

 private:
  Extent2d size_;
};

/// The largest of each window: [n, c, d, h, w] -> [n, c, size...].
class AdaptiveMaxPool3d : public Layer {
 public:
  explicit AdaptiveMaxPool3d(Extent3d size) : size_(size) {}

  Tensor compute(const Tensor& x) const override { return adaptive_max_pool3d(x, size_.values()); }
  void visit(MemberVisitor&) override {}

 private:
  Extent3d size_;
};

}  // namespace tutti
