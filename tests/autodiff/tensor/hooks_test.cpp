// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>

#include <doctest/doctest.h>

namespace tutti {
namespace {

TEST_CASE("hooks: a tensor's hook sees the sum of its contributions, once, and replaces it") {
  const Tensor x = leaf({1, 2});
  const Tensor y = x * 2;
  std::vector<Values> seen;
  y.register_hook([&](const Tensor& gradient) {
    seen.push_back(gradient.to_vector<double>());
    return gradient * 10;
  });
  backward(sum(y * 3 + y));
  CHECK(seen == std::vector<Values>{{4, 4}});
  CHECK(x.grad().to_vector<double>() == Values{80, 80});
}

TEST_CASE("hooks: of a leaf, before the gradient is accumulated; in order; removed by their handles") {
  const Tensor x = leaf({1, 2});
  int calls = 0;
  HookHandle doubling = x.register_hook([](const Tensor& gradient) { return gradient * 2; });
  HookHandle counting = x.register_hook([&](const Tensor& gradient) {
    CHECK(gradient.to_vector<double>() == Values{2, 2});
    CHECK_FALSE(gradient.requires_grad());
    ++calls;
  });
  backward(sum(x));
  backward(sum(x));
  CHECK(calls == 2);
  CHECK(x.grad().to_vector<double>() == Values{4, 4});
  counting.remove();
  counting.remove();
  doubling.remove();
  backward(sum(x));
  CHECK(calls == 2);
  CHECK(x.grad().to_vector<double>() == Values{5, 5});
}

TEST_CASE("hooks: one may remove itself, and outlive its tensor") {
  HookHandle once;
  int calls = 0;
  {
    const Tensor x = leaf({1});
    once = x.register_hook([&](const Tensor&) {
      ++calls;
      once.remove();
    });
    backward(x * x);
    backward(x * x);
  }
  CHECK(calls == 1);
  once.remove();
}

TEST_CASE("hooks: grad() calls them, and their results can be differentiated again") {
  const Tensor x = leaf({3});
  const Tensor y = x * x;
  y.register_hook([&](const Tensor& gradient) { return gradient * x; });
  const Tensor inputs[] = {x};
  const Tensor first = grad(y, inputs, {.create_graph = true})[0];  // x 2x
  CHECK(first.to_vector<double>() == Values{18});
  CHECK(grad(first, inputs)[0].to_vector<double>() == Values{12});
  CHECK_FALSE(x.grad().defined());
}

TEST_CASE("hooks: a null gradient calls none") {
  const Tensor x = leaf({3});
  x.register_hook([](const Tensor&) { FAIL("called"); });
  backward(x * x, {.scale = 0});
}

TEST_CASE("hooks: a leaf's gradient has its destination, whatever the hook returns") {
  const Tensor x = leaf({1, 2, 3, 4}, {2, 2});
  x.gradient_slot().destination = Array::zeros({2, 2}, DType::f64, test_device());
  x.register_hook([](const Tensor& gradient) { return gradient * 2; });
  backward(sum(matmul(x, constant({1, 1}, {2, 1}))));
  CHECK(x.gradient_slot().gradient.raw_data() == x.gradient_slot().destination.raw_data());
  CHECK(x.grad().to_vector<double>() == Values{2, 2, 2, 2});
}

TEST_CASE("hooks: what is refused") {
  const GradientHook keep = [](const Tensor&) { return Tensor(); };
  CHECK_THROWS_WITH_AS(Tensor().register_hook(keep), doctest::Contains("an undefined tensor has no gradient"),
                       AutodiffError);
  CHECK_THROWS_WITH_AS(constant({1}, {1}).register_hook(keep), doctest::Contains("requires no gradient"),
                       AutodiffError);
  Tensor table = leaf({1, 2}, {2, 1});
  HookHandle handle = table.register_hook(keep);
  CHECK_THROWS_WITH_AS(table.set_sparse_grad(true), doctest::Contains("has hooks"), AutodiffError);
  handle.remove();
  table.set_sparse_grad(true);
  CHECK_THROWS_WITH_AS(table.register_hook(keep), doctest::Contains("sparse"), AutodiffError);
  const Tensor x = leaf({1, 2});
  const Tensor y = exp(x);
  y.register_hook([](const Tensor& gradient) { return sum(gradient); });
  CHECK_THROWS_WITH_AS(backward(sum(y)), doctest::Contains("a hook of exp returned [] f64"), AutodiffError);
}

}  // namespace
}  // namespace tutti
