// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/references/operations.h>

#include <tutti/autodiff/operations.h>
#include <tutti/nn/activation.h>
#include <tutti/nn/embedding_bag.h>

namespace tutti::testing {
namespace {

/// The input whose place an attribute gives, or undefined.
Tensor named(const Call& c, std::string_view attribute) {
  return c.attributes.has(attribute) ? c.input(static_cast<std::size_t>(c.attributes.integer(attribute))) : Tensor();
}

EmbeddingBagCall bag_call(const Call& c) {
  const std::string& mode = c.attributes.text("mode");
  return {.mode = mode == "sum"    ? BagMode::sum
                  : mode == "mean" ? BagMode::mean
                                   : BagMode::max,
          .per_sample_weights = named(c, "weights"),
          .padding_index = c.attributes.has("padding") ? std::optional(c.attributes.integer("padding")) : std::nullopt};
}

}  // namespace

std::vector<Operation> network_operations() {
  return {
      TUTTI_REFERENCE(embedding_bag, embedding_bag(c.x[0], c.x[1], named(c, "offsets"), bag_call(c))),
      TUTTI_REFERENCE(glu, glu(c.x[0], c.attributes.integer("axis"))),
      TUTTI_REFERENCE(softmin, softmin(c.x[0], c.attributes.integer("axis"))),
      TUTTI_REFERENCE(tanhshrink, tanhshrink(c.x[0])),
  };
}

}  // namespace tutti::testing
