// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/operations/normalization.h>
#include <tutti/nn/layer.h>

#include <optional>

namespace tutti {

struct NormOptions {
  double eps = 1e-5;
  bool affine = true;  ///< has a weight, which starts as ones, and a bias, which starts as zeros
  bool bias = true;    ///< false: a weight alone
  DType dtype = DType::f32;
  Device device = cpu(0);
};

/// `layer_norm` over the last axes.
class LayerNorm : public Layer {
 public:
  /// `normalized`: the lengths of these axes. ShapeError unless they are positive, DTypeError unless the type is
  /// floating; so for all layers here.
  explicit LayerNorm(const Shape& normalized, const NormOptions& = {});
  explicit LayerNorm(std::int64_t features, const NormOptions& options = {}) : LayerNorm(Shape{features}, options) {}

  Tensor compute(const Tensor& x) const override { return layer_norm(x, normalized_, weight, bias, eps_); }
  void visit(MemberVisitor&) override;

  Tensor weight;  ///< shape: the normalised lengths, as the bias's; undefined unless affine
  Tensor bias;    ///< undefined without bias

 private:
  Shape normalized_;
  double eps_;
};

struct RMSNormOptions {
  std::optional<double> eps = {};  ///< none: the machine epsilon of the dtype that is computed in
  bool affine = true;
  DType dtype = DType::f32;
  Device device = cpu(0);
};

/// `rms_norm` over the last axes.
class RMSNorm : public Layer {
 public:
  explicit RMSNorm(const Shape& normalized, const RMSNormOptions& = {});
  explicit RMSNorm(std::int64_t features, const RMSNormOptions& options = {}) : RMSNorm(Shape{features}, options) {}

  Tensor compute(const Tensor& x) const override { return rms_norm(x, normalized_, weight, eps_); }
  void visit(MemberVisitor&) override;

  Tensor weight;  ///< shape: the normalised lengths; undefined unless affine

 private:
  Shape normalized_;
  std::optional<double> eps_;
};

/// `group_norm` of [n, channels, ...].
class GroupNorm : public Layer {
 public:
  /// ShapeError also unless the groups divide the channels.
  GroupNorm(std::int64_t groups, std::int64_t channels, const NormOptions& = {});

  Tensor compute(const Tensor& x) const override { return group_norm(x, groups_, weight, bias, eps_); }
  void visit(MemberVisitor&) override;

  Tensor weight;  ///< [channels], as the bias; undefined unless affine
  Tensor bias;

 private:
  std::int64_t groups_;
  double eps_;
};

struct BatchNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;  ///< share of each batch in the running statistics
  bool affine = true;
  bool track = true;  ///< keep running statistics; else batches are normalised by their own in evaluation too
  DType dtype = DType::f32;
  Device device = cpu(0);
};

/// `batch_norm` of [n, channels, ...], whatever follows: vectors, sequences, images, volumes. Each forward in training
/// writes the running statistics in place.
class BatchNorm : public Layer {
 public:
  explicit BatchNorm(std::int64_t channels, const BatchNormOptions& = {});

  Tensor compute(const Tensor& x) const override;
  void visit(MemberVisitor&) override;

  Tensor weight;  ///< [channels], as all; weight and bias undefined unless affine
  Tensor bias;
  Tensor running_mean;  ///< starts as zeros; undefined unless tracked, as is running_var, which starts as ones
  Tensor running_var;
  /// Brings the statistics of a batch that lies on several devices together, in training. A copy of the layer shares
  /// it.
  GatherStatistics gather;

 private:
  double eps_;
  double momentum_;
};

}  // namespace tutti
