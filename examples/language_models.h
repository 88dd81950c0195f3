// SPDX-License-Identifier: Apache-2.0
#pragma once

// Models that predict the next character. Tokens [n, t] i64 -> logits [n, t, vocabulary].

#include <tutti/autodiff/operations.h>
#include <tutti/nn/dropout.h>
#include <tutti/nn/embedding.h>
#include <tutti/nn/initialize.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/module_list.h>
#include <tutti/nn/normalization.h>
#include <tutti/nn/recurrent.h>
#include <tutti/nn/transformer.h>

#include <cmath>

namespace text {

struct ModelOptions {
  std::int64_t vocabulary = 0;
  std::int64_t context = 64;  ///< the longest sequence
  std::int64_t features = 64;
  std::int64_t heads = 4;
  std::int64_t layers = 2;
  double dropout = 0.0;
  bool tied = false;       ///< gpt: the head's weight is the table of characters
  double deviation = 0.0;  ///< gpt: of the first weights, as GPT-2's; 0: what the layers start with
};

/// GPT-2's smallest model, of 124,439,808 parameters.
inline constexpr ModelOptions kGpt2{.vocabulary = 50'257,
                                    .context = 1024,
                                    .features = 768,
                                    .heads = 12,
                                    .layers = 12,
                                    .dropout = 0.0,
                                    .tied = true,
                                    .deviation = 0.02};

/// The first weights of GPT-2: normal, those that end on the residual path smaller by sqrt(2 layers); biases 0.
inline void initialize_gpt(tutti::Module& gpt, const ModelOptions& options, tutti::Generator& random) {
  for (const auto& [name, parameter] : gpt.named_parameters()) {
    const bool is_residual = name.ends_with("out_proj.weight") || name.ends_with("linear2.weight");
    const double scale = is_residual ? 1.0 / std::sqrt(2.0 * static_cast<double>(options.layers)) : 1.0;
    if (parameter.rank() >= 2)
      tutti::fill_normal(parameter, random, 0.0, scale * options.deviation);
    else if (name.ends_with("bias"))
      tutti::fill_constant(parameter, 0.0);
  }
}

/// A decoder in the manner of GPT-2: Radford et al., "Language Models are Unsupervised Multitask Learners" (2019).
class Gpt : public tutti::Layer {
 public:
  Gpt(const ModelOptions& options, tutti::Generator& random)
      : tokens_(options.vocabulary, options.features, random),
        positions_(options.context, options.features, random),
        dropout_(options.dropout, random),
        norm_(options.features),
        head_(options.features, options.vocabulary, random, {.bias = false}) {
    for (std::int64_t i = 0; i < options.layers; ++i)
      blocks_.append(tutti::TransformerBlock(options.features, options.heads, random,
                                             {.causal = true, .dropout = options.dropout}));
    if (options.tied) head_.weight = tokens_.weight;
    if (options.deviation > 0) initialize_gpt(*this, options, random);
  }

  tutti::Tensor compute(const tutti::Tensor& tokens) const override {
    const tutti::Tensor places = positions_.weight.slice(0, 0, tokens.length(1));
    tutti::Tensor x = dropout_(tokens_(tokens) + places);
    for (const tutti::TransformerBlock& block : blocks_) x = block(x);
    return head_(norm_(x));
  }

  void visit(tutti::MemberVisitor& v) override {
    v.module("tokens", tokens_);
    v.module("positions", positions_);
    v.module("dropout", dropout_);
    v.module("blocks", blocks_);
    v.module("norm", norm_);
    v.module("head", head_);
  }

 private:
  tutti::Embedding tokens_;
  tutti::Embedding positions_;
  tutti::Dropout dropout_;
  tutti::ModuleList<tutti::TransformerBlock> blocks_;
  tutti::LayerNorm norm_;
  tutti::Linear head_;
};

/// Hochreiter and Schmidhuber, "Long Short-Term Memory" (1997).
class Lstm : public tutti::Layer {
 public:
  Lstm(const ModelOptions& options, tutti::Generator& random)
      : tokens_(options.vocabulary, options.features, random),
        lstm_(options.features, options.features, random,
              {.layers = options.layers, .batch_first = true, .dropout = options.dropout}),
        head_(options.features, options.vocabulary, random) {}

  tutti::Tensor compute(const tutti::Tensor& tokens) const override { return head_(lstm_(tokens_(tokens)).sequence); }

  void visit(tutti::MemberVisitor& v) override {
    v.module("tokens", tokens_);
    v.module("lstm", lstm_);
    v.module("head", head_);
  }

 private:
  tutti::Embedding tokens_;
  tutti::LSTM lstm_;
  tutti::Linear head_;
};

}  // namespace text
