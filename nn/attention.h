// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/operations/attention.h>
#include <tutti/backend/random.h>
#include <tutti/nn/dropout.h>
#include <tutti/nn/layer.h>
#include <tutti/nn/linear.h>

#include <optional>

namespace tutti {

struct MultiheadAttentionOptions {
  std::int64_t key_value_heads = 0;       ///< fewer than heads: each is shared by several; 0: as many
  std::optional<RotaryCall> rotary = {};  ///< turns queries and keys by their positions, both from the same one on
  double dropout = 0;                     ///< share of attention weights dropped in training
  bool bias = true;
  DType dtype = DType::f32;
  Device device = cpu(0);
};

/// Keys that a call of attention sees. As in `scaled_dot_product_attention`, true is what is seen.
struct AttentionMask {
  Tensor mask = {};  ///< broadcast to [..., heads, queries, keys]: of a batch's padding [batch, 1, 1, keys]
  bool causal = false;
};

/// Attention of several heads: Vaswani et al., "Attention Is All You Need" (2017). [..., length, features], batch
/// first. Members are named, shaped and started as those of torch.nn.MultiheadAttention; unlike its, masks are true
/// where a key is seen.
class MultiheadAttention : public LayerOf<Tensor(const Tensor& x, const AttentionMask&)> {
 public:
  /// ShapeError unless heads divide the features, and key_value_heads the heads; DTypeError unless the type is
  /// floating.
  MultiheadAttention(std::int64_t features, std::int64_t heads, Generator&, const MultiheadAttentionOptions& = {});

  // Attention of a sequence with itself, with a mask or without.
  using LayerOf::forward;
  using LayerOf::operator();
  Tensor forward(const Tensor& x) const { return forward(x, AttentionMask()); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
  /// Queries [..., queries, features] with keys and values [..., keys, features].
  Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionMask& = {}) const;
  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionMask& mask = {}) const {
    return forward(query, key, value, mask);
  }
  Tensor compute(const Tensor& x, const AttentionMask&) const override;
  void visit(MemberVisitor&) override;

  Tensor in_proj_weight;  ///< [queries' | keys' | values' features, features]
  Tensor in_proj_bias;    ///< undefined without bias
  Linear out_proj;

 private:
  void check(std::string_view what, const Tensor&) const;
  Tensor projected(const Tensor& x, std::int64_t begin, std::int64_t end) const;
  Tensor attend(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionMask&) const;

  std::int64_t features_;
  std::int64_t heads_;
  std::int64_t key_value_features_;
  std::optional<RotaryCall> rotary_;
  Dropout dropout_;
};

}  // namespace tutti
