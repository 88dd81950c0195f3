// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/references/operations.h>

#include <tutti/autodiff/operations.h>

namespace tutti::testing {
namespace {

double parameter(const Call& c, std::size_t place) { return c.attributes.numbers("parameters").at(place); }

}  // namespace

std::vector<Operation> function_operations() {
  return {
      TUTTI_REFERENCE(reciprocal, reciprocal(c.x[0])),
      TUTTI_REFERENCE(lerp, lerp(c.x[0], c.x[1], c.x[2])),
      TUTTI_REFERENCE(prelu, prelu(c.x[0], c.x[1])),
      TUTTI_REFERENCE(relu6, relu6(c.x[0])),
      TUTTI_REFERENCE(mish, mish(c.x[0])),
      TUTTI_REFERENCE(celu, celu(c.x[0], parameter(c, 0))),
      TUTTI_REFERENCE(selu, selu(c.x[0])),
      TUTTI_REFERENCE(softsign, softsign(c.x[0])),
      TUTTI_REFERENCE(log_sigmoid, log_sigmoid(c.x[0])),
      TUTTI_REFERENCE(hard_sigmoid, hard_sigmoid(c.x[0])),
      TUTTI_REFERENCE(hard_shrink, hard_shrink(c.x[0], parameter(c, 0))),
      TUTTI_REFERENCE(soft_shrink, soft_shrink(c.x[0], parameter(c, 0))),
      TUTTI_REFERENCE(threshold, threshold(c.x[0], parameter(c, 0), parameter(c, 1))),
      TUTTI_REFERENCE(nan_to_num, c.attributes.has("parameters")
                                      ? nan_to_num(c.x[0], parameter(c, 0), parameter(c, 1), parameter(c, 2))
                                      : nan_to_num(c.x[0])),
      TUTTI_REFERENCE(isnan, isnan(c.x[0])),
      TUTTI_REFERENCE(isinf, isinf(c.x[0])),
      TUTTI_REFERENCE(isfinite, isfinite(c.x[0])),
      TUTTI_REFERENCE(logical_and, logical_and(c.x[0], c.x[1])),
      TUTTI_REFERENCE(logical_or, logical_or(c.x[0], c.x[1])),
      TUTTI_REFERENCE(logical_xor, logical_xor(c.x[0], c.x[1])),
      TUTTI_REFERENCE(logical_not, logical_not(c.x[0])),
      {"bitwise_not", "operator~", [](const Call& c) -> Results { return ~c.x[0]; }},
  };
}

}  // namespace tutti::testing
