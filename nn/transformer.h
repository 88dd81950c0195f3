// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/nn/attention.h>
#include <tutti/nn/dropout.h>
#include <tutti/nn/layer.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/normalization.h>

#include <optional>

namespace tutti {

struct TransformerBlockOptions {
  std::int64_t hidden = 0;                ///< width between the two linear layers; 0: four times the features
  std::int64_t key_value_heads = 0;       ///< heads of keys and values, as in MultiheadAttentionOptions
  std::optional<RotaryCall> rotary = {};  ///< turns queries and keys, as in MultiheadAttentionOptions
  bool pre_norm = true;                   ///< normalise before each half, not after it
  bool causal = false;                    ///< each position sees itself and those before
  double dropout = 0;  ///< share dropped of attention weights, between the linear layers, and of each half's result
  bool bias = true;    ///< biases of all linear layers and norms
  double eps = 1e-5;   ///< epsilon of both norms
  DType dtype = DType::f32;
  Device device = cpu(0);
};

/// One layer of an encoder, or causal of a decoder without cross attention: x + attention, then x +
/// linear(gelu(linear)), each half normalised: before it, x + f(norm(x)) (Xiong et al., "On Layer Normalization in the
/// Transformer Architecture", 2020), or after it, norm(x + f(x)) (Vaswani et al., 2017). [..., length, features] of any
/// batch. Members are named as those of torch.nn.TransformerEncoderLayer(activation="gelu", batch_first=True,
/// norm_first=True); its default, norms after each half, is `.pre_norm = false` here. Files of one kind load into the
/// other without complaint.
class TransformerBlock : public LayerOf<Tensor(const Tensor& x, const Tensor& mask)> {
 public:
  /// ShapeError unless sizes are positive, heads divide the features and key_value_heads the heads; DTypeError unless
  /// the type is floating; Error unless dropout is in [0, 1].
  TransformerBlock(std::int64_t features, std::int64_t heads, Generator&, const TransformerBlockOptions& = {});

  using LayerOf::forward;
  using LayerOf::operator();
  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return forward(x); }
  Tensor compute(const Tensor& x, const Tensor& mask) const override;  ///< mask as in AttentionMask
  void visit(MemberVisitor&) override;

  MultiheadAttention self_attn;
  Linear linear1;  ///< first linear layer, with gelu
  Linear linear2;
  LayerNorm norm1;
  LayerNorm norm2;
  Dropout dropout;  ///< dropout between the linear layers
  Dropout dropout1;
  Dropout dropout2;

 private:
  Tensor attended(const Tensor& x, const Tensor& mask) const;
  Tensor fed_forward(const Tensor& x) const;

  bool pre_norm_;
  bool causal_;
};

}  // namespace tutti
