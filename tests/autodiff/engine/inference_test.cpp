// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/checkpoint.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>

#include <doctest/doctest.h>

namespace tutti {
namespace {

TEST_CASE("Inference: nothing is recorded, whatever is called") {
  const Tensor x = leaf({1, 2});
  {
    const Inference inference;
    CHECK(inference_enabled());
    const EnableGrad enable;
    CHECK_FALSE(grad_enabled());
    CHECK_FALSE((x * x).requires_grad());
    const Inference inner;
  }
  CHECK_FALSE(inference_enabled());
  CHECK((x * x).requires_grad());
}

TEST_CASE("Inference: its results are constants, which may enter a graph later") {
  const Tensor x = leaf({1, 2});
  Tensor y;
  {
    const Inference inference;
    y = x * 3;
  }
  backward(sum(x * y));
  CHECK(x.grad().to_vector<double>() == Values{3, 6});
}

TEST_CASE("Inference: what needs a graph is refused by name") {
  const Tensor x = leaf({1, 2});
  const Tensor y = sum(x * x);
  const Tensor inputs[] = {x};
  const Inference inference;
  CHECK_THROWS_WITH_AS(backward(y), doctest::Contains("[backward] not under Inference"), AutodiffError);
  CHECK_THROWS_WITH_AS(grad(y, inputs), doctest::Contains("[grad] not under Inference"), AutodiffError);
}

TEST_CASE("Inference: a checkpoint is a call") {
  const Tensor x = leaf({1, 2});
  const Inference inference;
  const Tensor y = checkpoint([](const Tensor& z) { return z * 2; }, x);
  CHECK(y.to_vector<double>() == Values{2, 4});
  CHECK_FALSE(y.requires_grad());
}

}  // namespace
}  // namespace tutti
