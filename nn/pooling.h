// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/operations.h>
#include <tutti/nn/extent2d.h>
#include <tutti/nn/extent3d.h>
#include <tutti/nn/layer.h>

namespace tutti {

struct MaxPool2dOptions {
  Extent2d stride = 0;   ///< 0: the kernel
  Extent2d padding = 0;  ///< counts as -inf and is never chosen
};
struct AvgPool2dOptions {
  Extent2d stride = 0;            ///< 0: the kernel
  Extent2d padding = 0;           ///< counts as 0
  bool count_include_pad = true;  ///< true: padding counts as elements, too
};
struct MaxPool3dOptions {
  Extent3d stride = 0;   ///< 0: the kernel
  Extent3d padding = 0;  ///< counts as -inf and is never chosen
};
struct AvgPool3dOptions {
  Extent3d stride = 0;            ///< 0: the kernel
  Extent3d padding = 0;           ///< counts as 0
  bool count_include_pad = true;  ///< true: padding counts as elements, too
};
struct MaxPool1dOptions {
  std::int64_t stride = 0;   ///< 0: the kernel
  std::int64_t padding = 0;  ///< counts as -inf and is never chosen
};
struct AvgPool1dOptions {
  std::int64_t stride = 0;        ///< 0: the kernel
  std::int64_t padding = 0;       ///< counts as 0
  bool count_include_pad = true;  ///< true: padding counts as elements, too
};

/// The largest value of each window: [n, c, h, w] -> [n, c, h', w'], h' = (h + 2 padding - kernel) / stride + 1.
class MaxPool2d : public Layer {
 public:
  explicit MaxPool2d(Extent2d kernel, const MaxPool2dOptions& options = {})
      : geometry_{kernel.values(), options.stride.or_else(kernel).values(), options.padding.values()} {}

  Tensor compute(const Tensor& x) const override { return max_pool2d(x, geometry_); }
  void visit(MemberVisitor&) override {}
  const Pool2dGeometry& geometry() const noexcept { return geometry_; }

 private:
  Pool2dGeometry geometry_;
};

/// The mean of each window: [n, c, h, w] -> [n, c, h', w'], as MaxPool2d.
class AvgPool2d : public Layer {
 public:
  explicit AvgPool2d(Extent2d kernel, const AvgPool2dOptions& options = {})
      : geometry_{kernel.values(), options.stride.or_else(kernel).values(), options.padding.values(),
                  options.count_include_pad} {}

  Tensor compute(const Tensor& x) const override { return avg_pool2d(x, geometry_); }
  void visit(MemberVisitor&) override {}
  const AvgPool2dGeometry& geometry() const noexcept { return geometry_; }

 private:
  AvgPool2dGeometry geometry_;
};

/// The largest value of each window of sequences: [n, c, l] -> [n, c, l'], l' = (l + 2 padding - kernel) / stride + 1.
class MaxPool1d : public Layer {
 public:
  explicit MaxPool1d(std::int64_t kernel, const MaxPool1dOptions& options = {})
      : geometry_{kernel, options.stride == 0 ? kernel : options.stride, options.padding} {}

  Tensor compute(const Tensor& x) const override { return max_pool1d(x, geometry_); }
  void visit(MemberVisitor&) override {}
  const Pool1dGeometry& geometry() const noexcept { return geometry_; }

 private:
  Pool1dGeometry geometry_;
};

/// The mean of each window of sequences: [n, c, l] -> [n, c, l'], as MaxPool1d.
class AvgPool1d : public Layer {
 public:
  explicit AvgPool1d(std::int64_t kernel, const AvgPool1dOptions& options = {})
      : geometry_{kernel, options.stride == 0 ? kernel : options.stride, options.padding, options.count_include_pad} {}

  Tensor compute(const Tensor& x) const override { return avg_pool1d(x, geometry_); }
  void visit(MemberVisitor&) override {}
  const AvgPool1dGeometry& geometry() const noexcept { return geometry_; }

 private:
  AvgPool1dGeometry geometry_;
};

/// The largest value of each window of volumes: [n, c, d, h, w] -> [n, c, d', h', w'], as MaxPool2d.
class MaxPool3d : public Layer {
 public:
  explicit MaxPool3d(Extent3d kernel, const MaxPool3dOptions& options = {})
      : geometry_{kernel.values(), options.stride.or_else(kernel).values(), options.padding.values()} {}

  Tensor compute(const Tensor& x) const override { return max_pool3d(x, geometry_); }
  void visit(MemberVisitor&) override {}
  const Pool3dGeometry& geometry() const noexcept { return geometry_; }

 private:
  Pool3dGeometry geometry_;
};

/// The mean of each window of volumes, as MaxPool3d.
class AvgPool3d : public Layer {
 public:
  explicit AvgPool3d(Extent3d kernel, const AvgPool3dOptions& options = {})
      : geometry_{kernel.values(), options.stride.or_else(kernel).values(), options.padding.values(),
                  options.count_include_pad} {}

  Tensor compute(const Tensor& x) const override { return avg_pool3d(x, geometry_); }
  void visit(MemberVisitor&) override {}
  const AvgPool3dGeometry& geometry() const noexcept { return geometry_; }

 private:
  AvgPool3dGeometry geometry_;
};

/// The mean of each channel's image, whatever its size: [n, c, h, w] -> [n, c, 1, 1]. PyTorch's AdaptiveAvgPool2d(1).
class GlobalAvgPool2d : public Layer {
 public:
  Tensor compute(const Tensor& x) const override;
  void visit(MemberVisitor&) override {}
};

}  // namespace tutti
