// SPDX-License-Identifier: Apache-2.0
#pragma once

// Attention and positions, differentiable any number of times.

#include <tutti/autodiff/tensor.h>
#include <tutti/backend/random.h>

#include <cstdint>
#include <optional>

namespace tutti {

struct AttentionCall {
  /// Broadcast to [..., queries, keys]: [keys] is the same for all queries. bool: which keys a query sees; floating:
  /// added to the scores. Undefined: none.
  Tensor mask = {};
  bool causal = false;               ///< query i sees keys 0 .. i; beside a mask, both count
  std::optional<double> scale = {};  ///< factor of the scores; default 1 / sqrt(features)
  double dropout = 0;                ///< share of softmax's weights to drop: `random` says which, with one draw
  Generator* random = nullptr;       ///< needed for dropout
  std::int64_t block = 0;            ///< queries and keys that have scores at a time, where no kernel decides; 0: any
};

/// softmax(query key^T scale + mask) value: query [..., queries, features], key [..., keys, features], value
/// [..., keys, out] -> [..., queries, out]. Leading axes are broadcast, so are heads: where the axis before the last
/// two is longer in query by a whole factor, that many neighbouring query heads share a head of key and value (Ainslie
/// et al., "GQA", 2023). A query that sees no key gives zeros, and no gradient, as in PyTorch.
///
/// Memory grows with queries + keys, not with their product: scores are made of some queries at a time, or block by
/// block with a running maximum and sum, and again in backward (Rabe and Staats, "Self-attention Does Not Need O(n^2)
/// Memory", 2021; Dao et al., "FlashAttention", 2022). Only the second derivative, and a mask that requires a gradient,
/// make all scores at once. One floating dtype, in which bf16 and f16 are rounded once: scores are f32. Throws
/// ShapeError or DTypeError for operands that do not fit.
Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionCall& = {});

struct RotaryCall {
  double base = 10000.0;
  std::int64_t offset = 0;    ///< position of the first row: how many came before, in a cache
  std::int64_t features = 0;  ///< how many of the first features are turned; 0: all. Even
  bool interleaved = false;   ///< pairs are neighbours (GPT-J); else feature i and i + features / 2 (GPT-NeoX, LLaMA)
};

/// Rotary position embedding, [..., positions, d] of any leading axes -> the same shape: turns pair i of the row at
/// position p by the angle p base^(-2 i / features). Su et al., "RoFormer" (2021). Any floating dtype, in which bf16
/// and f16 are computed in f32 and rounded once; integers give f32. ShapeError for an odd number of features, or more
/// than d.
Tensor rotary_embedding(const Tensor& x, const RotaryCall& = {});

}  // namespace tutti
