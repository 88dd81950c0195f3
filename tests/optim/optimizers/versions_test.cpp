// SPDX-License-Identifier: Apache-2.0
// A step between a graph's forward and its backward is noticed there.
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/optim/clip.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

namespace tutti {
namespace {

Tensor weights() { return Tensor(Array::from(std::vector<double>{1, 2, 3, 4}, {2, 2}, test_device()), true); }

TEST_CASE("versions: a step before the backward of what had read the parameters") {
  const Tensor w = weights();
  Sgd optimizer({w}, 0.1);
  const Tensor early = sum(w * w);
  const Tensor harmless = sum(w + w);
  backward(sum(w));
  optimizer.step();
  CHECK_THROWS_WITH_AS(backward(early), doctest::Contains("optimizer.step has written"), AutodiffError);
  optimizer.zero_grad();
  backward(harmless);
  CHECK(w.grad().to_vector<double>() == std::vector<double>{2, 2, 2, 2});
}

TEST_CASE("versions: a step from sparse gradients") {
  Tensor table = weights();
  table.set_sparse_grad(true);
  Sgd optimizer({table}, 0.1);
  const Tensor places(Array::from(std::vector<std::int64_t>{1}, {1}, test_device()));
  const Tensor copy = table.detach();
  const Tensor x = Tensor(Array::full({2, 2}, 1, DType::f64, test_device()), true);
  const Tensor reads = sum(x * copy);
  backward(sum(embedding(table, places)));
  optimizer.step();
  CHECK_THROWS_WITH_AS(backward(reads), doctest::Contains("optimizer.step has written"), AutodiffError);
}

TEST_CASE("versions: gradients that are clipped after they were used") {
  const Tensor w = weights();
  backward(sum(w * w));
  const Tensor x = Tensor(Array::full({2, 2}, 1, DType::f64, test_device()), true);
  const Tensor reads = sum(x * w.grad());
  const Tensor parameters[] = {w};
  clip_grad_norm(parameters, 0.1);
  CHECK_THROWS_WITH_AS(backward(reads), doctest::Contains("a change of gradients has written"), AutodiffError);
}

}  // namespace
}  // namespace tutti
