// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/attention.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/raise.h>
#include <tutti/nn/initialize.h>

namespace tutti {
namespace {

// [..., length, features] -> [..., heads, length, features of a head], and back.
Tensor split_heads(const Tensor& x, std::int64_t width) {
  Shape shape = x.shape();
  shape[shape.size() - 1] /= width;
  shape.push_back(width);
  return transpose(reshape(x, shape), -3, -2);
}

Tensor join_heads(const Tensor& x) {
  const Tensor rows = transpose(x, -3, -2);
  return flatten(rows, static_cast<std::int64_t>(rows.rank()) - 2);
}

}  // namespace

MultiheadAttention::MultiheadAttention(std::int64_t features, std::int64_t heads, Generator& generator,
                                       const MultiheadAttentionOptions& options)
    : out_proj(features, features, generator, {.bias = options.bias, .dtype = options.dtype, .device = options.device}),
      features_(features),
      heads_(heads),
      rotary_(options.rotary),
      dropout_(options.dropout, generator) {
  dropout_.refuse_hooks("attention drops weights inside its own operation");
  const std::int64_t shared = options.key_value_heads == 0 ? heads : options.key_value_heads;
  if (heads <= 0 || features % heads != 0 || shared <= 0 || heads % shared != 0)
    raise<ShapeError>("[MultiheadAttention] {} features cannot have {} heads that share {} of keys and values",
                      features, heads, shared);
  key_value_features_ = features / heads * shared;
  const std::int64_t rows = features + 2 * key_value_features_;
  in_proj_weight = Tensor(Array::empty({rows, features}, options.dtype, options.device), true);
  xavier_uniform(in_proj_weight, generator);
  if (!options.bias) return;
  in_proj_bias = Tensor(Array::zeros({rows}, options.dtype, options.device), true);
  out_proj.bias.set_array(Array::zeros({features}, options.dtype, options.device));
}

void MultiheadAttention::check(std::string_view what, const Tensor& x) const {
  if (x.rank() < 2 || x.length(-1) != features_)
    raise<ShapeError>("[MultiheadAttention] {} is {}: [..., steps, {} features] are needed", what, to_string(x.shape()),
                      features_);
}

// By some rows of the projection.
Tensor MultiheadAttention::projected(const Tensor& x, std::int64_t begin, std::int64_t end) const {
  const Tensor bias = in_proj_bias.defined() ? slice(in_proj_bias, 0, begin, end) : Tensor();
  return linear(x, slice(in_proj_weight, 0, begin, end), bias);
}

Tensor MultiheadAttention::compute(const Tensor& x, const AttentionMask& mask) const {
  check("x", x);
  const Tensor projected_all = linear(x, in_proj_weight, in_proj_bias);
  const std::int64_t keys_end = features_ + key_value_features_;
  return attend(slice(projected_all, -1, 0, features_), slice(projected_all, -1, features_, keys_end),
                slice(projected_all, -1, keys_end, keys_end + key_value_features_), mask);
}

Tensor MultiheadAttention::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                   const AttentionMask& mask) const {
  const auto apart = [this](const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& seen) {
    check("the query", q), check("the key", k), check("the value", v);
    const std::int64_t keys_end = features_ + key_value_features_;
    return attend(projected(q, 0, features_), projected(k, features_, keys_end),
                  projected(v, keys_end, keys_end + key_value_features_), seen);
  };
  return call_through(*this, apart, query, key, value, mask);
}

Tensor MultiheadAttention::attend(const Tensor& query, const Tensor& key, const Tensor& value,
                                  const AttentionMask& mask) const {
  const std::int64_t width = features_ / heads_;
  Tensor q = split_heads(query, width);
  Tensor k = split_heads(key, width);
  if (rotary_) {
    if (query.length(-2) != key.length(-2))
      raise<ShapeError>(
          "[MultiheadAttention] queries of {} positions and keys of {}: with rotary positions both begin at the same "
          "one. Turn cached keys by rotary_embedding, and use scaled_dot_product_attention",
          query.length(-2), key.length(-2));
    q = rotary_embedding(q, *rotary_);
    k = rotary_embedding(k, *rotary_);
  }
  AttentionCall call{.mask = mask.mask, .causal = mask.causal};
  if (training() && dropout_.p() > 0) {
    call.dropout = dropout_.p();
    call.random = &dropout_.generator_of(query.device());
  }
  return out_proj(join_heads(scaled_dot_product_attention(q, k, split_heads(value, width), call)));
}

void MultiheadAttention::visit(MemberVisitor& visitor) {
  visitor.parameter("in_proj_weight", in_proj_weight);
  visitor.parameter("in_proj_bias", in_proj_bias);
  visitor.module("out_proj", out_proj);
  visitor.module("dropout", dropout_);
}

}  // namespace tutti
