// SPDX-License-Identifier: Apache-2.0
#include <tutti/onnx/operators/operator_call.h>

#include <cmath>
#include <limits>

namespace tutti::onnx {

namespace {

using Call = OperatorCall;

/// [batch, heads, length, features], of that or of [batch, length, heads * features].
Tensor in_heads(const Call& call, const Tensor& x, const char* attribute) {
  if (x.dim() == 4) return x;
  const std::int64_t heads = call.integer(attribute, 0);
  if (x.dim() != 3 || heads < 1 || x.length(2) % heads != 0)
    call.refuse(std::string(attribute) + " does not divide the features of an operand");
  return permute(reshape(x, {x.length(0), x.length(1), heads, x.length(2) / heads}), {0, 2, 1, 3});
}

/// Which keys a query sees where each sees those before it, of which `past` stand before its own: [queries, keys].
Tensor causal_mask(std::int64_t queries, std::int64_t keys, std::int64_t past, Device device) {
  return tril(ones({queries, keys}, {.dtype = DType::boolean, .device = device}), past);
}

Tensors attention(const Call& call) {
  const bool is_flat = call.in(0).dim() == 3;
  const Tensor query = in_heads(call, call.in(0), "q_num_heads");
  Tensor key = in_heads(call, call.in(1), "kv_num_heads");
  Tensor value = in_heads(call, call.in(2), "kv_num_heads");
  if (call.has(6)) call.refuse("lengths of keys (nonpad_kv_seqlen)");
  if (call.wants(3)) call.refuse("scores as an output");
  if (call.number("softcap", 0.0) != 0.0) call.refuse("capped scores (softcap)");
  (void)call.integer("qk_matmul_output_mode", 0);
  (void)call.integer("softmax_precision", 1);
  (void)call.integer("q_num_heads", 0);
  (void)call.integer("kv_num_heads", 0);
  std::int64_t past = 0;
  if (call.has(4)) {
    past = call.in(4).length(2);
    key = concatenate({call.in(4), key}, 2);
    value = concatenate({call.in(5), value}, 2);
  }
  AttentionCall how{.scale = call.number("scale", 1.0 / std::sqrt(static_cast<double>(query.length(3))))};
  if (call.has(3)) {
    how.mask = call.in(3);
    // From opset 24 on, keys that the mask does not reach are not seen; before, masks are broadcast.
    const std::int64_t missing = key.length(2) - how.mask.length(-1);
    if (missing > 0 && call.opset() < 24 && how.mask.length(-1) != 1)
      call.refuse("a mask of fewer keys than there are, before opset 24");
    if (missing > 0 && call.opset() < 24) {
      std::vector<std::int64_t> shape(how.mask.shape().begin(), how.mask.shape().end());
      shape.back() = key.length(2);
      how.mask = broadcast_to(how.mask, Shape(shape));
    } else if (missing > 0) {
      std::vector<Padding> pairs(how.mask.rank());
      pairs.back().after = missing;
      how.mask = how.mask.dtype() == DType::boolean ? cast(pad(cast(how.mask, DType::u8), pairs, 0), DType::boolean)
                                                    : pad(how.mask, pairs, -std::numeric_limits<double>::infinity());
    }
  }
  if (call.integer("is_causal", 0) != 0) {
    const Tensor seen = causal_mask(query.length(2), key.length(2), past, query.device());
    if (!how.mask.defined())
      how.mask = seen;
    else if (how.mask.dtype() == DType::boolean)
      how.mask = logical_and(how.mask, seen);
    else
      how.mask = where(seen, how.mask, scalar_like(how.mask, -std::numeric_limits<double>::infinity()));
  }
  Tensor y = scaled_dot_product_attention(query, key, value, how);
  if (is_flat) y = reshape(permute(y, {0, 2, 1, 3}), {y.length(0), y.length(2), y.length(1) * y.length(3)});
  return {y, key, value};
}

constexpr OperatorEntry kOperators[] = {
    {"Attention", attention},
};

}  // namespace

std::span<const OperatorEntry> attention_operators() { return kOperators; }

}  // namespace tutti::onnx
