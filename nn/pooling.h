// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/operations.h>
#include <tutti/nn/layer.h>
#include <tutti/nn/layers/extent.h>

#include <cstddef>

namespace tutti {

template <std::size_t axes> struct MaxPoolOptions {
  Extent<axes> stride = 0;   ///< 0: the kernel
  Extent<axes> padding = 0;  ///< counts as -inf and is never chosen
};
using MaxPool1dOptions = MaxPoolOptions<1>;
using MaxPool2dOptions = MaxPoolOptions<2>;
using MaxPool3dOptions = MaxPoolOptions<3>;

template <std::size_t axes> struct AvgPoolOptions {
  Extent<axes> stride = 0;        ///< 0: the kernel
  Extent<axes> padding = 0;       ///< counts as 0
  bool count_include_pad = true;  ///< true: padding counts as elements, too
};
using AvgPool1dOptions = AvgPoolOptions<1>;
using AvgPool2dOptions = AvgPoolOptions<2>;
using AvgPool3dOptions = AvgPoolOptions<3>;

/// A layer that is one operation over windows.
template <class Geometry, Tensor (*pool)(const Tensor&, const Geometry&)> class WindowPooling : public Layer {
 public:
  Tensor compute(const Tensor& x) const override { return pool(x, geometry_); }
  void visit(MemberVisitor&) override {}
  const Geometry& geometry() const noexcept { return geometry_; }

 protected:
  explicit WindowPooling(const Geometry& geometry) : geometry_(geometry) {}

 private:
  Geometry geometry_;
};

/// The largest value of each window: [n, c, h, w] -> [n, c, h', w'], h' = (h + 2 padding - kernel) / stride + 1.
class MaxPool2d : public WindowPooling<Pool2dGeometry, max_pool2d> {
 public:
  explicit MaxPool2d(Extent2d kernel, const MaxPool2dOptions& options = {})
      : WindowPooling({kernel.values(), options.stride.or_else(kernel).values(), options.padding.values()}) {}
};

/// The mean of each window: [n, c, h, w] -> [n, c, h', w'], as MaxPool2d.
class AvgPool2d : public WindowPooling<AvgPool2dGeometry, avg_pool2d> {
 public:
  explicit AvgPool2d(Extent2d kernel, const AvgPool2dOptions& options = {})
      : WindowPooling({kernel.values(), options.stride.or_else(kernel).values(), options.padding.values(),
                       options.count_include_pad}) {}
};

/// The largest value of each window of sequences: [n, c, l] -> [n, c, l'], l' = (l + 2 padding - kernel) / stride + 1.
class MaxPool1d : public WindowPooling<Pool1dGeometry, max_pool1d> {
 public:
  explicit MaxPool1d(Extent1d kernel, const MaxPool1dOptions& options = {})
      : WindowPooling({kernel.values(), options.stride.or_else(kernel).values(), options.padding.values()}) {}
};

/// The mean of each window of sequences: [n, c, l] -> [n, c, l'], as MaxPool1d.
class AvgPool1d : public WindowPooling<AvgPool1dGeometry, avg_pool1d> {
 public:
  explicit AvgPool1d(Extent1d kernel, const AvgPool1dOptions& options = {})
      : WindowPooling({kernel.values(), options.stride.or_else(kernel).values(), options.padding.values(),
                       options.count_include_pad}) {}
};

/// The largest value of each window of volumes: [n, c, d, h, w] -> [n, c, d', h', w'], as MaxPool2d.
class MaxPool3d : public WindowPooling<Pool3dGeometry, max_pool3d> {
 public:
  explicit MaxPool3d(Extent3d kernel, const MaxPool3dOptions& options = {})
      : WindowPooling({kernel.values(), options.stride.or_else(kernel).values(), options.padding.values()}) {}
};

/// The mean of each window of volumes, as MaxPool3d.
class AvgPool3d : public WindowPooling<AvgPool3dGeometry, avg_pool3d> {
 public:
  explicit AvgPool3d(Extent3d kernel, const AvgPool3dOptions& options = {})
      : WindowPooling({kernel.values(), options.stride.or_else(kernel).values(), options.padding.values(),
                       options.count_include_pad}) {}
};

/// The mean of each channel's image, whatever its size: [n, c, h, w] -> [n, c, 1, 1]. PyTorch's AdaptiveAvgPool2d(1).
class GlobalAvgPool2d : public Layer {
 public:
  Tensor compute(const Tensor& x) const override;
  void visit(MemberVisitor&) override {}
};

}  // namespace tutti
