// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/references/operations.h>

#include <tutti/autodiff/operations.h>

namespace tutti::testing {
namespace {

double eps(const Call& c) { return c.attributes.number("eps"); }
Shape normalized(const Call& c) { return c.attributes.integers("normalized"); }

std::optional<double> given(const Call& c, std::string_view name) {
  return c.attributes.has(name) ? std::optional(c.attributes.number(name)) : std::nullopt;
}

/// The result, and the running statistics after it.
std::vector<Tensor> normalised_batch(const Call& c) {
  const Tensor mean(c.x.at(1).array().copy());
  const Tensor variance(c.x.at(2).array().copy());
  const BatchNormCall call{
      .training = c.attributes.flag("training"), .momentum = c.attributes.number("momentum"), .eps = eps(c)};
  const Tensor result = batch_norm(c.x[0], mean, variance, c.input(3), c.input(4), call);
  return {result, mean, variance};
}

AttentionCall attention_call(const Call& c) {
  return {.mask = c.input(static_cast<std::size_t>(c.attributes.integer("mask", 99))),
          .causal = c.attributes.flag("causal"),
          .scale = given(c, "scale"),
          .block = c.attributes.integer("block", 0)};
}

RotaryCall rotary_call(const Call& c) {
  return {.base = c.attributes.number("base"),
          .offset = c.attributes.integer("offset"),
          .features = c.attributes.integer("features"),
          .interleaved = c.attributes.flag("interleaved")};
}

}  // namespace

std::vector<Operation> layer_operations() {
  return {
      TUTTI_REFERENCE(layer_norm, layer_norm(c.x[0], normalized(c), c.input(1), c.input(2), eps(c))),
      TUTTI_REFERENCE(rms_norm, rms_norm(c.x[0], normalized(c), c.input(1), given(c, "eps"))),
      TUTTI_REFERENCE(group_norm, group_norm(c.x[0], c.attributes.integer("groups"), c.input(1), c.input(2), eps(c))),
      TUTTI_REFERENCE(batch_norm, normalised_batch(c)),
      TUTTI_REFERENCE(scaled_dot_product_attention,
                      scaled_dot_product_attention(c.x[0], c.x[1], c.x[2], attention_call(c))),
      TUTTI_REFERENCE(rotary_embedding, rotary_embedding(c.x[0], rotary_call(c))),
  };
}

}  // namespace tutti::testing
