// SPDX-License-Identifier: Apache-2.0
// Whatever an operation keeps for its gradient: backward notices that it was written to, or does not read it.
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/attention.h>
#include <tutti/autodiff/operations/image_operations.h>
#include <tutti/autodiff/operations/normalization.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <optional>
#include <string>

namespace tutti {
namespace {

using Operands = std::vector<Tensor>;
using Operation = std::function<Tensor(const Operands&)>;

struct Trial {
  Operation f;
  std::vector<Shape> shapes;

  /// The operands' gradients, with operand number `written` halved before backward, or the result where there are no
  /// more; none if backward threw.
  std::optional<Values> gradients(std::optional<std::size_t> written) const {
    Operands leaves;
    Operands operands;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      leaves.push_back(spread(shapes[i], i + 1, true));
      operands.push_back(leaves.back() + 0);
    }
    const Tensor y = f(operands);
    const Tensor dy = spread(y.shape(), 4, true).detach();
    if (written) (*written < operands.size() ? operands[*written] : y).detach().mul_(0.5);
    try {
      Values all;
      for (const Tensor& gradient : grad(std::span(&y, 1), leaves, {.gradients = {dy}}))
        for (const double value : gradient.to_vector<double>()) all.push_back(value);
      return all;
    } catch (const AutodiffError&) {
      return std::nullopt;
    }
  }
};

void check(const std::string& name, const std::vector<Shape>& shapes, const Operation& f) {
  INFO(name);
  const Trial trial{f, shapes};
  const std::optional<Values> expected = trial.gradients({});
  REQUIRE(expected);
  for (std::size_t written = 0; written <= shapes.size(); ++written) {
    INFO("written: " << written);
    const std::optional<Values> gradients = trial.gradients(written);
    if (!gradients) continue;
    for (std::size_t i = 0; i < expected->size(); ++i) CHECK((*gradients)[i] == doctest::Approx((*expected)[i]));
  }
}

TEST_CASE("saved values: normalisations") {
  check("layer_norm", {{3, 4}, {4}, {4}}, [](const Operands& x) { return layer_norm(x[0], {4}, x[1], x[2]); });
  check("layer_norm plain", {{3, 4}}, [](const Operands& x) { return layer_norm(x[0], {4}); });
  check("rms_norm", {{3, 4}, {4}}, [](const Operands& x) { return rms_norm(x[0], {4}, x[1]); });
  check("group_norm", {{2, 4, 3}, {4}, {4}}, [](const Operands& x) { return group_norm(x[0], 2, x[1], x[2]); });
  check("batch_norm", {{3, 4}, {4}, {4}},
        [](const Operands& x) { return batch_norm(x[0], {}, {}, x[1], x[2], {.training = true}); });
}

TEST_CASE("saved values: functions, products, pooling") {
  check("attention", {{1, 2, 3, 4}, {1, 2, 3, 4}, {1, 2, 3, 4}},
        [](const Operands& x) { return scaled_dot_product_attention(x[0], x[1], x[2]); });
  check("softmax", {{3, 4}}, [](const Operands& x) { return softmax(x[0], 1); });
  check("log_softmax", {{3, 4}}, [](const Operands& x) { return log_softmax(x[0], 1); });
  check("cumprod", {{3, 4}}, [](const Operands& x) { return cumprod(x[0], 1); });
  check("prod", {{3, 4}}, [](const Operands& x) { return prod(x[0], {1}); });
  check("max", {{3, 4}}, [](const Operands& x) { return max(x[0], {1}); });
  check("logsumexp", {{3, 4}}, [](const Operands& x) { return logsumexp(x[0], {1}); });
  check("var", {{3, 4}}, [](const Operands& x) { return var(x[0], {1}); });
  check("gelu", {{3, 4}}, [](const Operands& x) { return gelu(x[0]); });
  check("relu", {{3, 4}}, [](const Operands& x) { return relu(x[0]); });
  check("tanh", {{3, 4}}, [](const Operands& x) { return tanh(x[0]); });
  check("divide", {{3, 4}, {3, 4}}, [](const Operands& x) { return x[0] / x[1]; });
  check("pow", {{3, 4}, {3, 4}}, [](const Operands& x) { return pow(x[0], x[1]); });
  check("clip", {{3, 4}}, [](const Operands& x) { return clip(x[0], 0.5, 0.9); });
  check("where", {{3, 4}, {3, 4}}, [](const Operands& x) { return where(x[0] > x[1], x[0], x[1]); });
  check("sort", {{3, 4}}, [](const Operands& x) { return sort(x[0], 1).values; });
  check("matmul", {{3, 4}, {4, 3}}, [](const Operands& x) { return matmul(x[0], x[1]); });
  check("einsum", {{3, 4}, {4, 3}}, [](const Operands& x) { return einsum("ij,jk->ik", x); });
  check("linear", {{3, 4}, {2, 4}, {2}},
        [](const Operands& x) { return linear(x[0], x[1], x[2], LinearActivation::gelu); });
  check("conv2d", {{1, 2, 5, 5}, {3, 2, 3, 3}, {3}}, [](const Operands& x) { return conv2d(x[0], x[1], x[2]); });
  check("max_pool2d", {{1, 2, 4, 4}}, [](const Operands& x) { return max_pool2d(x[0], {{2, 2}, {2, 2}}); });
}

TEST_CASE("saved values: a normalisation's operand, by name") {
  const Tensor x = spread({3, 4}, 1);
  const Tensor y = layer_norm(x, {4});
  {
    const NoGrad no_grad;
    x.mul_(2);
  }
  CHECK_THROWS_WITH_AS(backward(sum(y)), doctest::Contains("mul_ has written"), AutodiffError);
}

TEST_CASE("saved values: an attention's mask") {
  for (const Shape& shape : {Shape{3, 3}, Shape{2, 3, 3}}) {  // of all heads, and of each of two that share keys
    const Tensor query = spread({2, 3, 4}, 1);
    const Tensor keys = spread({1, 3, 4}, 2);
    Tensor mask(Array::zeros(shape, DType::f64, test_device()));
    const auto attended = [&] { return sum(scaled_dot_product_attention(query, keys, keys, {.mask = mask})); };
    const Tensor inputs[] = {query};
    const Values expected = grad(attended(), inputs)[0].to_vector<double>();
    const Tensor written = attended();
    mask.slice(-1, 1, 2).fill_(-5.0);
    CHECK_THROWS_WITH_AS(backward(written), doctest::Contains("scaled_dot_product_attention"), AutodiffError);
    mask.fill_(0.0);
    const Tensor replaced = attended();
    mask.set_array(Array::full(shape, -5.0, DType::f64, test_device()));  // the graph keeps the old one
    CHECK(grad(replaced, inputs)[0].to_vector<double>() == expected);
  }
}

}  // namespace
}  // namespace tutti
