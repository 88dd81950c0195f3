// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/backward.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <thread>
#include <vector>

namespace tutti {
namespace {

Values gradient(const Tensor& x) { return x.grad().to_vector<double>(); }

TEST_CASE("backward: a parameter used twice gets the sum") {
  const Tensor x = leaf({2, -3});
  const Tensor w = leaf({5, 7});
  backward(sum(x * w + w));
  CHECK(gradient(w) == Values{3, -2});
  CHECK(gradient(x) == Values{5, 7});
}

TEST_CASE("backward: one operand twice") {
  const Tensor x = leaf({2, -3});
  backward(sum(x * x + (x + x)));
  CHECK(gradient(x) == Values{6, -4});
}

TEST_CASE("backward: a diamond visits its top once") {
  const Tensor x = leaf({2});
  const Tensor top = x * x;
  backward((top + 1) * (top * 3));  // 3x^4 + 3x^2
  CHECK(gradient(x) == Values{12 * 8 + 6 * 2});
}

TEST_CASE("backward: shared subgraphs cost their size, not their number of paths") {
  const Tensor x = leaf({1});
  Tensor y = x;
  for (int i = 0; i < 50; ++i) y = y + y;
  backward(y);
  CHECK(gradient(x) == Values{1125899906842624.0});
}

TEST_CASE("backward: branches that do not lead to the root play no part") {
  const Tensor x = leaf({2});
  const Tensor other = leaf({3});
  const Tensor unused = x * other;
  backward(x * x);
  CHECK(gradient(x) == Values{4});
  CHECK_FALSE(other.grad().defined());
  backward(unused);  // which nothing released
  CHECK(gradient(x) == Values{7});
}

TEST_CASE("backward: constants and detached values stop it") {
  const Tensor x = leaf({2});
  backward(x * (x * x).detach());
  CHECK(gradient(x) == Values{4});
}

TEST_CASE("backward: two backwards accumulate, until zero_grad") {
  Tensor x = leaf({1, 2});
  backward(sum(x * 2));
  backward(sum(x * x));
  CHECK(gradient(x) == Values{4, 6});
  CHECK(x.gradient_slot().state == GradientState::accumulated);
  x.zero_grad();
  CHECK_FALSE(x.grad().defined());
  CHECK(x.gradient_slot().state == GradientState::undefined);
  backward(sum(x * 3));
  CHECK(gradient(x) == Values{3, 3});
}

TEST_CASE("backward: retain_graph allows another; without it the error names the operation") {
  const Tensor x = leaf({3});
  const Tensor y = tanh(x * x);
  backward(y, {.retain_graph = true});
  const Values once = gradient(x);
  backward(y);
  CHECK(gradient(x) == Values{2 * once[0]});
  CHECK_THROWS_WITH_AS(backward(y), doctest::Contains("multiply"), AutodiffError);
  CHECK_THROWS_WITH_AS(backward(exp(y)), doctest::Contains("retain_graph"), AutodiffError);
  CHECK(gradient(x) == Values{2 * once[0]});  // nothing was accumulated
}

TEST_CASE("backward: a released part is named even where another part is whole") {
  const Tensor x = leaf({3});
  const Tensor shared = sigmoid(x);
  backward(shared * 2);
  CHECK_THROWS_WITH_AS(backward(shared + x), doctest::Contains("sigmoid"), AutodiffError);
}

TEST_CASE("backward: the root may be a leaf") {
  const Tensor x = leaf({3});
  backward(x);
  backward(x, {.scale = 2.0});
  CHECK(gradient(x) == Values{3});
}

TEST_CASE("backward: roots that have no gradient are refused") {
  const Tensor x = leaf({1, 2});
  CHECK_THROWS_WITH_AS(backward(x * x), doctest::Contains("[2]"), AutodiffError);
  CHECK_THROWS_AS(backward(sum(constant({1, 2}, {2}))), AutodiffError);
  CHECK_THROWS_WITH_AS(backward(Tensor()), "[backward] the root is undefined", AutodiffError);
  CHECK_THROWS_AS(backward(x * x, {.gradient = constant({1}, {1})}), ShapeError);
  const NoGrad no_grad;
  CHECK_THROWS_WITH_AS(backward(sum(x * x)), doctest::Contains("NoGrad"), AutodiffError);
}

TEST_CASE("backward: the root's gradient and its scale multiply") {
  const Tensor x = leaf({1, 2});
  backward(x * x, {.gradient = constant({1, 10}, {2}), .scale = 0.5});
  CHECK(gradient(x) == Values{1, 20});
}

TEST_CASE("backward: scale 0 sends null gradients, and computes nothing") {
  Tensor x = leaf({0});
  backward(log(x), {.scale = 0.0});
  CHECK_FALSE(x.grad().defined());  // not NaN
  backward(x * 4);
  backward(log(x), {.scale = 0.0});
  CHECK(gradient(x) == Values{4});
}

TEST_CASE("backward: no two leaves share a gradient's memory") {
  const Tensor x = leaf({1, 2});
  const Tensor y = leaf({3, 4});
  const Tensor given = constant({1, 1}, {2});
  backward(x + reshape(y, {2}), {.gradient = given});
  CHECK(x.gradient_slot().gradient.storage() != y.gradient_slot().gradient.storage());
  CHECK(x.gradient_slot().gradient.storage() != given.array().storage());
  CHECK(y.gradient_slot().gradient.storage() != given.array().storage());
  x.gradient_slot().gradient.fill(100);
  CHECK(gradient(y) == Values{1, 1});
  CHECK(given.to_vector<double>() == Values{1, 1});
}

TEST_CASE("backward: gradients are whole arrays, also those of broadcasts, slices and transposes") {
  const Tensor a = leaf({1, 2, 3, 4}, {2, 2});
  const Tensor b = leaf({1, 2, 3, 4}, {2, 2});
  backward(sum(a) + sum(transpose(b) * constant({1, 2, 3, 4}, {2, 2})));
  CHECK(a.gradient_slot().gradient.is_contiguous());
  CHECK(b.gradient_slot().gradient.is_contiguous());
  CHECK(gradient(a) == Values{1, 1, 1, 1});
  CHECK(gradient(b) == Values{1, 3, 2, 4});
  backward(sum(a * 2));
  CHECK(gradient(a) == Values{3, 3, 3, 3});
}

TEST_CASE("backward: an operation whose result nobody holds still takes part") {
  const Tensor x = leaf({2});
  Tensor y = x;
  for (int i = 0; i < 3; ++i) y = y * x;
  backward(y);
  CHECK(gradient(x) == Values{32});
}

TEST_CASE("backward: set_array after the forward does not change what was saved") {
  Tensor x = leaf({2});
  const Tensor y = x * x;
  x.set_array(Array::from(Values{100}, {1}, test_device()));
  backward(y);
  CHECK(gradient(x) == Values{4});
}

TEST_CASE("backward: two threads, each with its graph and device") {
  constexpr int kRounds = 200;
  Values results[2];
  std::vector<std::thread> threads;
  for (std::uint16_t rank = 0; rank < 2; ++rank)
    threads.emplace_back([&results, rank] {
      Tensor x = leaf({1, 2}, {2}, test_device(rank));
      for (int round = 0; round < kRounds; ++round) {
        const Tensor y = x * x;
        backward(sum(y * (rank + 1) + y));
      }
      results[rank] = gradient(x);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(results[0] == Values{kRounds * 4, kRounds * 8});
  CHECK(results[1] == Values{kRounds * 6, kRounds * 12});
}

}  // namespace
}  // namespace tutti
