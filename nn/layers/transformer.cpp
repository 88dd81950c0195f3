// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/transformer.h>

#include <tutti/autodiff/operations.h>

namespace tutti {
namespace {

std::int64_t hidden_of(std::int64_t features, const TransformerBlockOptions& options) {
  return options.hidden == 0 ? 4 * features : options.hidden;
}

LinearOptions linear_options(const TransformerBlockOptions& options, LinearActivation activation) {
  return {.bias = options.bias, .dtype = options.dtype, .device = options.device, .activation = activation};
}

NormOptions norm_options(const TransformerBlockOptions& options) {
  return {.eps = options.eps, .bias = options.bias, .dtype = options.dtype, .device = options.device};
}

MultiheadAttentionOptions attention_options(const TransformerBlockOptions& options) {
  return {.key_value_heads = options.key_value_heads,
          .rotary = options.rotary,
          .dropout = options.dropout,
          .bias = options.bias,
          .dtype = options.dtype,
          .device = options.device};
}

}  // namespace

TransformerBlock::TransformerBlock(std::int64_t features, std::int64_t heads, Generator& generator,
                                   const TransformerBlockOptions& options)
    : self_attn(features, heads, generator, attention_options(options)),
      linear1(features, hidden_of(features, options), generator, linear_options(options, LinearActivation::gelu)),
      linear2(hidden_of(features, options), features, generator, linear_options(options, LinearActivation::none)),
      norm1(features, norm_options(options)),
      norm2(features, norm_options(options)),
      dropout(options.dropout, generator),
      dropout1(options.dropout, generator),
      dropout2(options.dropout, generator),
      pre_norm_(options.pre_norm),
      causal_(options.causal) {}

Tensor TransformerBlock::forward(const Tensor& x) const {
  const auto unmasked = [this](const Tensor& seen) { return compute(seen, Tensor()); };
  return call_through(*this, unmasked, x);
}

Tensor TransformerBlock::compute(const Tensor& x, const Tensor& mask) const {
  if (pre_norm_) {
    const Tensor y = x + attended(norm1(x), mask);
    return y + fed_forward(norm2(y));
  }
  const Tensor y = norm1(x + attended(x, mask));
  return norm2(y + fed_forward(y));
}

Tensor TransformerBlock::attended(const Tensor& x, const Tensor& mask) const {
  return dropout1(self_attn(x, {.mask = mask, .causal = causal_}));
}

Tensor TransformerBlock::fed_forward(const Tensor& x) const { return dropout2(linear2(dropout(linear1(x)))); }

void TransformerBlock::visit(MemberVisitor& visitor) {
  visitor.module("self_attn", self_attn);
  visitor.module("linear1", linear1);
  visitor.module("dropout", dropout);
  visitor.module("linear2", linear2);
  visitor.module("norm1", norm1);
  visitor.module("norm2", norm2);
  visitor.module("dropout1", dropout1);
  visitor.module("dropout2", dropout2);
}

}  // namespace tutti
