// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/image_operations.h>
#include <tutti/autodiff/volume_operations.h>
#include <tutti/backend/random.h>
#include <tutti/nn/extent2d.h>
#include <tutti/nn/extent3d.h>
#include <tutti/nn/layer.h>

namespace tutti {

struct ConvTranspose1dOptions {
  std::int64_t stride = 1;
  std::int64_t padding = 0;         ///< taken off the result, on both sides
  std::int64_t output_padding = 0;  ///< more at the end of the result: less than stride or dilation
  std::int64_t dilation = 1;
  std::int64_t groups = 1;  ///< must divide both numbers of channels
  bool bias = true;
  DType dtype = DType::f32;
  Device device = cpu(0);
};

struct ConvTranspose2dOptions {
  Extent2d stride = 1;
  Extent2d padding = 0;         ///< taken off the result, on both sides
  Extent2d output_padding = 0;  ///< more at the end of the result: less than stride or dilation
  Extent2d dilation = 1;
  std::int64_t groups = 1;  ///< must divide both numbers of channels
  bool bias = true;
  DType dtype = DType::f32;
  Device device = cpu(0);
};

struct ConvTranspose3dOptions {
  Extent3d stride = 1;
  Extent3d padding = 0;         ///< taken off the result, on both sides
  Extent3d output_padding = 0;  ///< more at the end of the result: less than stride or dilation
  Extent3d dilation = 1;
  std::int64_t groups = 1;  ///< must divide both numbers of channels
  bool bias = true;
  DType dtype = DType::f32;
  Device device = cpu(0);
};

/// The gradient of Conv1d with respect to its input, as a layer of sequences: [n, in, l] -> [n, out, l'], l' = (l -
/// 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1. Starts as described at `initialize_layer`,
/// where the fan is the weight's: out / groups times the kernel, as in PyTorch.
class ConvTranspose1d : public Layer {
 public:
  /// Throws ShapeError unless channels, kernel, stride, dilation and groups are positive, groups divide the channels,
  /// and both paddings fit; DTypeError unless the type is floating.
  ConvTranspose1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel, Generator&,
                  const ConvTranspose1dOptions& = {});

  Tensor compute(const Tensor& x) const override { return conv_transpose1d(x, weight, bias, geometry_); }
  void visit(MemberVisitor&) override;
  const ConvTranspose1dGeometry& geometry() const noexcept { return geometry_; }

  Tensor weight;  ///< [in, out / groups, kernel]
  Tensor bias;    ///< [out]; undefined without bias

 private:
  ConvTranspose1dGeometry geometry_;
};

/// The gradient of Conv2d with respect to its input, as a layer of images: [n, in, h, w] -> [n, out, h', w'], h' =
/// (h - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1, and w' alike. Starts as described at
/// `initialize_layer`.
class ConvTranspose2d : public Layer {
 public:
  /// Errors as of ConvTranspose1d.
  ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels, Extent2d kernel, Generator&,
                  const ConvTranspose2dOptions& = {});

  Tensor compute(const Tensor& x) const override { return conv_transpose2d(x, weight, bias, geometry_); }
  void visit(MemberVisitor&) override;
  const ConvTranspose2dGeometry& geometry() const noexcept { return geometry_; }

  Tensor weight;  ///< [in, out / groups, kernel height, kernel width]
  Tensor bias;    ///< [out]; undefined without bias

 private:
  ConvTranspose2dGeometry geometry_;
};

/// The gradient of Conv3d with respect to its input, as a layer of volumes: [n, in, d, h, w] -> [n, out, d', h',
/// w'], d' = (d - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1, and h', w' alike. Starts as
/// described at `initialize_layer`.
class ConvTranspose3d : public Layer {
 public:
  /// Errors as of ConvTranspose1d.
  ConvTranspose3d(std::int64_t in_channels, std::int64_t out_channels, Extent3d kernel, Generator&,
                  const ConvTranspose3dOptions& = {});

  Tensor compute(const Tensor& x) const override { return conv_transpose3d(x, weight, bias, geometry_); }
  void visit(MemberVisitor&) override;
  const ConvTranspose3dGeometry& geometry() const noexcept { return geometry_; }

  Tensor weight;  ///< [in, out / groups, kernel depth, height, width]
  Tensor bias;    ///< [out]; undefined without bias

 private:
  ConvTranspose3dGeometry geometry_;
};

}  // namespace tutti
