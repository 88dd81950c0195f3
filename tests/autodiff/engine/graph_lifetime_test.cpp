// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/checkpoint.h>
#include <tutti/autodiff/custom_function.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/autodiff/leaves.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <vector>

namespace tutti {
namespace {

constexpr int kDeep = 1'000'000;  // a recursion this deep overflows any usual stack

std::size_t in_use() {
  synchronize(test_device());  // queued work holds its arrays
  return memory_pool(test_device()).statistics().in_use;
}

/// Lets the device keep `literal` as an array of its own, as CUDA devices do with the last ones used, before bytes are
/// counted.
void use_literal(double literal) { (void)(leaf({1}) * literal).to_vector<double>(); }

Tensor chain(const Tensor& x, int length) {
  Tensor y = x;
  for (int i = 0; i < length; ++i) y = -y;
  return y;
}

TEST_CASE("graph: a very long chain runs backward, and is freed") {
  const std::size_t before = in_use();
  {
    const Tensor x = leaf({3});
    backward(chain(x, kDeep));
    CHECK(x.grad().to_vector<double>() == Values{1});
  }
  CHECK(in_use() == before);
}

TEST_CASE("graph: a very long chain that never runs backward is freed") {
  const std::size_t before = in_use();
  { const Tensor y = chain(leaf({3}), kDeep); }
  CHECK(in_use() == before);
}

TEST_CASE("graph: a very long ladder, where each rung uses the one below twice, is freed") {
  use_literal(0);
  const std::size_t before = in_use();
  {
    const Tensor x = leaf({0});
    Tensor y = x;
    for (int i = 0; i < kDeep / 4; ++i) y = y + y;
    const Tensor inputs[] = {x};
    CHECK(grad(chain(x, 2) + y * 0, inputs, {.retain_graph = true}).size() == 1);
  }
  CHECK(in_use() == before);
}

TEST_CASE("graph: many functions, each of which holds the output of the one before, are freed") {
  constexpr int kMany = 100'000;
  const std::size_t before = in_use();
  {
    const Tensor x = leaf({3});
    Tensor y = x;
    for (int i = 0; i < kMany; ++i)
      y = checkpoint([y](const Tensor& in) { return in * static_cast<double>(y.size()); }, x);
    CHECK(y.requires_grad());
    Tensor z = x;
    for (int i = 0; i < kMany; ++i)
      z = custom_function(
          "held", {x}, [](std::span<const Array> in) { return in[0].copy(); },
          [z](std::span<const Array>, const Array&, const Array& dy) { return std::vector<Array>{dy}; });
    CHECK(z.requires_grad());
  }
  CHECK(in_use() == before);
}

TEST_CASE("graph: what operations saved goes with the last tensor of the graph") {
  const std::size_t before = in_use();
  {
    const Tensor x = spread({16, 16}, 1);
    const std::size_t with_leaf = in_use();
    {
      const Tensor y = softmax(tanh(matmul(x, exp(x))) * x + max(x, 1, true));
      CHECK(in_use() > with_leaf);
    }
    CHECK(in_use() == with_leaf);
  }
  CHECK(in_use() == before);
}

TEST_CASE("graph: backward releases what was saved while its result lives") {
  const Tensor x = leaf(Values(1024, 0.5));
  Tensor y = sum(exp(x));  // saves its output
  const std::size_t recorded = in_use();
  backward(y);
  Tensor(x).zero_grad();
  CHECK(in_use() + 1024 * sizeof(double) <= recorded);
  CHECK(y.requires_grad());
}

TEST_CASE("graph: a saved output makes no cycle") {
  const std::size_t before = in_use();
  {
    Tensor y = sigmoid(leaf(Values(100, 1.0)));
    y = y * y;
    y = softmax(y);
  }
  CHECK(in_use() == before);
}

TEST_CASE("graph: second derivatives leave nothing behind") {
  const std::size_t before = in_use();
  {
    const Tensor x = spread({4}, 1);
    const Tensor inputs[] = {x};
    const Tensor first = grad(sum(x * tanh(x)), inputs, {.create_graph = true})[0];
    CHECK(grad(sum(first * first), inputs)[0].size() == 4);
  }
  CHECK(in_use() == before);
}

TEST_CASE("graph: a backward that throws leaves nothing behind") {
  const std::size_t before = in_use();
  {
    const Tensor x = leaf({1, 2});
    const Tensor y = custom_function(
        "failing", {exp(x)}, [](std::span<const Array> in) { return in[0].copy(); },
        [](std::span<const Array>, const Array&, const Array&) -> std::vector<Array> { throw 1; });
    CHECK_THROWS_AS(backward(sum(tanh(y))), int);
    CHECK_FALSE(x.grad().defined());
  }
  CHECK(in_use() == before);
}

TEST_CASE("NoGrad: nothing is kept") {
  use_literal(0.5);
  const Tensor x = leaf(Values(1024, 0.5));
  const NoGrad no_grad;
  const Tensor first = exp(x);
  const std::size_t with_one = in_use();
  Tensor y = first;
  for (int i = 0; i < 10; ++i) y = exp(y * 0.5);
  CHECK(in_use() == with_one + 1024 * sizeof(double));
}

TEST_CASE("graph: a very long chain of views, with a destination at its end") {
  const Tensor x = leaf({1, 2, 3, 4});
  const Array place = Array::zeros({4}, DType::f64, test_device());
  x.gradient_slot().destination = place;
  Tensor y = x;
  for (int i = 0; i < kDeep / 10; ++i) y = reshape(y, i % 2 == 0 ? Shape{2, 2} : Shape{4});
  const Tensor product = matmul(constant({1, 2, 3, 4}, {1, 4}), reshape(y, {4, 1}));
  backward(sum(product));
  CHECK(place.to_vector<double>() == Values{1, 2, 3, 4});
  CHECK(x.gradient_slot().gradient.raw_data() == place.raw_data());
}

}  // namespace
}  // namespace tutti
