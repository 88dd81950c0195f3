// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/references/operations.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>

#include <array>

namespace tutti::testing {
namespace {

LinearActivation activation(const Call& c) {
  const std::string& name = c.attributes.text("activation");
  return name == "relu" ? LinearActivation::relu : name == "gelu" ? LinearActivation::gelu : LinearActivation::none;
}

std::array<std::int64_t, 2> pair(const Call& c, std::string_view name) {
  const Axes numbers = c.attributes.integers(name);
  return {numbers[0], numbers[1]};
}

Conv2dGeometry conv_geometry(const Call& c) {
  return {.stride = pair(c, "stride"), .padding = pair(c, "padding"), .dilation = pair(c, "dilation")};
}

Pool2dGeometry pool_geometry(const Call& c) {
  return {.kernel = pair(c, "kernel"), .stride = pair(c, "stride"), .padding = pair(c, "padding")};
}

}  // namespace

std::vector<Operation> structured_operations() {
  return {
      TUTTI_REFERENCE(sum, sum(c.x[0], axes(c), keep(c))),
      TUTTI_REFERENCE(mean, mean(c.x[0], axes(c), keep(c))),
      TUTTI_REFERENCE(max, max(c.x[0], axes(c), keep(c))),
      TUTTI_REFERENCE(min, min(c.x[0], axes(c), keep(c))),
      TUTTI_REFERENCE(argmax, c.attributes.has("axis") ? argmax(c.x[0], axis(c), keep(c)) : argmax(c.x[0])),
      TUTTI_REFERENCE(argmin, c.attributes.has("axis") ? argmin(c.x[0], axis(c), keep(c)) : argmin(c.x[0])),
      TUTTI_REFERENCE(var, var(c.x[0], axes(c), c.attributes.number("correction"), keep(c))),
      TUTTI_REFERENCE(stddev, stddev(c.x[0], axes(c), c.attributes.number("correction"), keep(c))),
      TUTTI_REFERENCE(norm, norm(c.x[0], axes(c), keep(c))),
      TUTTI_REFERENCE(logsumexp, logsumexp(c.x[0], axes(c), keep(c))),
      TUTTI_REFERENCE(matmul, matmul(c.x[0], c.x[1])),
      TUTTI_REFERENCE(tensordot, c.attributes.has("count") ? tensordot(c.x[0], c.x[1], c.attributes.integer("count"))
                                                           : tensordot(c.x[0], c.x[1], c.attributes.integers("left"),
                                                                       c.attributes.integers("right"))),
      TUTTI_REFERENCE(outer, outer(c.x[0], c.x[1])),
      TUTTI_REFERENCE(addmm, addmm(c.x[0], c.x[1], c.x[2], c.attributes.number("beta"), c.attributes.number("alpha"))),
      TUTTI_REFERENCE(einsum, einsum(c.attributes.text("equation"), c.x)),
      TUTTI_REFERENCE(linear, linear(c.x[0], c.x[1], c.input(2), activation(c))),
      TUTTI_REFERENCE(conv2d, conv2d(c.x[0], c.x[1], c.input(2), conv_geometry(c))),
      TUTTI_REFERENCE(max_pool2d, max_pool2d(c.x[0], pool_geometry(c))),
      TUTTI_REFERENCE(softmax, softmax(c.x[0], axis(c))),
      TUTTI_REFERENCE(log_softmax, log_softmax(c.x[0], axis(c))),
  };
}

}  // namespace tutti::testing
