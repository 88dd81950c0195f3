// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/autocast.h>

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/autodiff/leaves.h>

#include <doctest/doctest.h>

#include <thread>

namespace tutti {
namespace {

Tensor floats(const Shape& shape, std::uint64_t seed, bool requires_grad = true) {
  return Tensor(spread(shape, seed).array().cast(DType::f32), requires_grad);
}

TEST_CASE("Autocast: products are narrow, wide functions f32, others promote") {
  const Tensor a = floats({2, 3}, 1);
  const Tensor b = floats({3, 2}, 2);
  const Tensor narrow = a.cast(DType::bf16);
  CHECK(matmul(a, b).dtype() == DType::f32);
  const Autocast guard(DType::bf16);
  CHECK(autocast_dtype() == DType::bf16);
  CHECK(matmul(a, b).dtype() == DType::bf16);
  CHECK(linear(a, floats({4, 3}, 3), floats({4}, 4)).dtype() == DType::bf16);
  CHECK(einsum("ij,jk", {a, b}).dtype() == DType::bf16);
  CHECK(conv2d(floats({1, 1, 4, 4}, 1), floats({1, 1, 2, 2}, 2), floats({1}, 3)).dtype() == DType::bf16);
  for (const Tensor& wide : {exp(narrow), log(abs(narrow)), softmax(narrow), log_softmax(narrow), sum(narrow),
                             mean(narrow, {0}), var(narrow), norm(narrow), logsumexp(narrow)})
    CHECK(wide.dtype() == DType::f32);
  CHECK((narrow + narrow).dtype() == DType::bf16);
  const Tensor rows = floats({1, 2, 4}, 1);
  CHECK(scaled_dot_product_attention(rows, rows, rows).dtype() == DType::bf16);
  CHECK(layer_norm(narrow, {3}).dtype() == DType::f32);
  CHECK((narrow * a).dtype() == DType::f32);
  CHECK(relu(narrow).dtype() == DType::bf16);
  CHECK(matmul(spread({2, 3}, 1), spread({3, 2}, 2)).dtype() == DType::f64);
  CHECK(exp(index({1}, {1})).dtype() == DType::f32);
}

TEST_CASE("Autocast: scopes nest, end, and are a thread's own; f32 switches them off") {
  const Tensor a = floats({2, 2}, 1);
  {
    const Autocast outer(DType::bf16);
    {
      const Autocast inner(DType::f16);
      CHECK(matmul(a, a).dtype() == DType::f16);
      const Autocast off(DType::f32);
      CHECK(matmul(a, a).dtype() == DType::f32);
    }
    CHECK(matmul(a, a).dtype() == DType::bf16);
    std::thread([&] { CHECK_FALSE(autocasts()); }).join();
  }
  CHECK_FALSE(autocasts());
  CHECK_THROWS_WITH_AS((void)Autocast{DType::f64}, doctest::Contains("not in f64"), DTypeError);
}

TEST_CASE("Autocast: gradients arrive in the leaves' own type, equal to those of explicit casts") {
  const Tensor x = floats({3, 4}, 1);
  const Tensor w = floats({2, 4}, 2);
  backward(sum(linear(x.cast(DType::bf16), w.cast(DType::bf16)).cast(DType::f32)));
  const std::vector<float> expected_x = x.grad().to_vector<float>();
  const std::vector<float> expected_w = w.grad().to_vector<float>();
  for (const bool inside : {false, true}) {
    Tensor(x).zero_grad();
    Tensor(w).zero_grad();
    Tensor loss;
    {
      const Autocast guard(DType::bf16);
      loss = sum(linear(x, w));
      CHECK(loss.dtype() == DType::f32);
      if (inside) backward(loss);
    }
    if (!inside) backward(loss);
    CHECK(x.grad().to_vector<float>() == expected_x);
    CHECK(w.grad().to_vector<float>() == expected_w);
  }
}

TEST_CASE("Autocast: a leaf is cast once in a scope, until it changes") {
  const auto in_use = [] {
    synchronize(test_device());
    return memory_pool(test_device()).statistics().in_use;
  };
  const Tensor x = floats({1, 64}, 1, false);
  Tensor w = floats({64, 64}, 2);
  constexpr std::size_t kCast = 64 * 64 * sizeof(std::uint16_t);
  const Autocast guard(DType::bf16);
  const std::size_t before = in_use();
  std::vector<Tensor> products;
  for (int use = 0; use < 5; ++use) products.push_back(matmul(x, w));
  CHECK(in_use() >= before + kCast);
  CHECK(in_use() < before + 2 * kCast);
  const std::vector<float> first = products[0].cast(DType::f32).to_vector<float>();
  {
    const NoGrad no_grad;
    CHECK_FALSE(matmul(x, w).requires_grad());
    w.mul_(2);
  }
  const std::vector<float> second = matmul(x, w).cast(DType::f32).to_vector<float>();
  for (std::size_t i = 0; i < first.size(); ++i) CHECK(second[i] == 2 * first[i]);
  w.set_array(Array::zeros({64, 64}, DType::f32, test_device()));
  CHECK(matmul(x, w).cast(DType::f32).to_vector<float>() == std::vector<float>(64, 0.0F));
  for (int step = 0; step < 2; ++step) backward(sum(matmul(matmul(x, w), w)));
  CHECK(w.grad().dtype() == DType::f32);
}

TEST_CASE("Autocast: what the uses of a leaf contribute is added in the leaf's own type") {
  const Tensor x(Array::full({1, 2}, 1.0, DType::f32, test_device()));
  const Tensor w = floats({2, 1}, 1);
  const Autocast guard(DType::bf16);
  Tensor loss(0.0);
  for (int use = 0; use < 300; ++use) loss = loss + sum(matmul(x, w));
  backward(loss);
  CHECK(w.grad().to_vector<float>() == std::vector<float>{300, 300});  // bf16 does not count beyond 256
}

TEST_CASE("Autocast: reciprocals and squares of 16-bit operands are f32") {
  const auto narrow = [](float value) {
    return Tensor(Array::from(std::vector<float>{value}, {1}, test_device())).cast(DType::f16);
  };
  const Autocast guard(DType::f16);
  CHECK(reciprocal(narrow(1e-5F)).to_vector<float>()[0] == doctest::Approx(1e5).epsilon(0.01));
  CHECK(pow(narrow(300), 2).to_vector<float>()[0] == doctest::Approx(9e4));
  CHECK(square(narrow(2)).dtype() == DType::f16);
}

TEST_CASE("Autocast: a value in the place where an old one was is cast again") {
  const Tensor x(Array::from(std::vector<float>{1, 0, 0, 1}, {2, 2}, test_device()));
  const auto filled = [](float value) { return Array::full({2, 2}, value, DType::f32, test_device()); };
  Tensor w(filled(1), true);
  const Autocast guard(DType::bf16);
  for (int step = 1; step < 20; ++step) {
    const Tensor before = matmul(x, w);
    w.set_array(filled(-1));
    w.set_array(filled(static_cast<float>(step)));  // often where the one before the last was
    CHECK(matmul(x, w).cast(DType::f32).to_vector<float>() == std::vector<float>(4, static_cast<float>(step)));
  }
}

TEST_CASE("Autocast: graphs of one scope are back-propagated each by itself") {
  const Tensor x = floats({2, 2}, 1, false);
  Tensor w = floats({2, 2}, 2);
  const Autocast guard(DType::bf16);
  const Tensor first = sum(matmul(x, w));
  const Tensor second = sum(matmul(x, w));
  backward(first);
  const std::vector<float> once = w.grad().to_vector<float>();
  backward(second);
  const std::vector<float> twice = w.grad().to_vector<float>();
  for (std::size_t i = 0; i < once.size(); ++i) CHECK(twice[i] == 2 * once[i]);
  CHECK_THROWS_WITH_AS(backward(second), doctest::Contains("released"), AutodiffError);
}

TEST_CASE("Autocast: a scope keeps no leaf alive, and few casts of those that are gone") {
  const auto in_use = [] {
    synchronize(test_device());
    return memory_pool(test_device()).statistics().in_use;
  };
  const Tensor x = floats({1, 64}, 1, false);
  const Autocast guard(DType::bf16);
  const std::size_t before = in_use();
  for (int step = 0; step < 20; ++step) {
    const Tensor w = floats({64, 64}, 2);
    backward(sum(matmul(x, w)));
  }
  CHECK(in_use() <= before + 2 * 64 * 64 * sizeof(std::uint16_t));
}

}  // namespace
}  // namespace tutti
