// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/custom_function.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>

#include <doctest/doctest.h>

#include <functional>

namespace tutti {
namespace {

Tensor matrix(std::int64_t rows, std::int64_t columns) { return spread({rows, columns}, 1).detach(); }

// --- versions

/// What was saved is written to by `write`; the error names both operations.
void check_noticed(const Tensor& result, const char* saver, const std::function<void()>& write, const char* writer) {
  {
    const NoGrad no_grad;
    write();
  }
  CHECK_THROWS_WITH_AS(backward(sum(result)), doctest::Contains(saver), AutodiffError);
  CHECK_THROWS_WITH_AS(backward(sum(result)), doctest::Contains(writer), AutodiffError);
}

TEST_CASE("versions: an input that was saved and written to") {
  const Tensor x = leaf({1, 2, 3});
  check_noticed(
      x * x, "multiply", [&] { x.add_(1); }, "add_ has written");
  const Tensor c = constant({1, 2, 3}, {3});
  check_noticed(
      x * c, "multiply", [&] { c.slice(0, 1, 2).fill_(7); }, "fill_ has written");
  check_noticed(
      x * c, "multiply", [&] { Array(c.array()).fill(1); }, "fill has written");
  check_noticed(
      x * c, "multiply", [&] { Array(c.array()).copy_from(x.array()); }, "copy_from has written");
  check_noticed(
      x * c, "multiply", [&] { c.array().count_write("a kernel of mine"); }, "a kernel of mine has written");
}

TEST_CASE("versions: an output that was saved and written to") {
  const Tensor x = leaf({1, 2, 3});
  const Tensor y = exp(x);
  check_noticed(
      y, "exp", [&] { y.detach().mul_(2); }, "mul_ has written");
}

TEST_CASE("versions: masks, indices, products, convolutions, functions of the user's") {
  const Tensor x = leaf({1, 2, 3});
  const Tensor mask(Array::from(std::vector<bool>{true, false, true}, {3}, test_device()));
  check_noticed(
      where(mask, x, 0), "where", [&] { mask.fill_(true); }, "fill_");
  const Tensor places = index({2, 0}, {2});
  check_noticed(
      embedding(x, places), "embedding", [&] { places.fill_(1); }, "fill_");
  const Tensor a = spread({2, 3}, 1);
  const Tensor b = spread({3, 2}, 2);
  check_noticed(
      matmul(a, b), "matmul", [&] { b.sub_(1); }, "sub_");
  const Tensor w = matrix(4, 3);
  check_noticed(
      linear(a, w), "linear", [&] { w.fill_(0); }, "fill_");
  const Tensor images = spread({1, 1, 4, 4}, 1);
  const Tensor weight = spread({1, 1, 2, 2}, 2);
  check_noticed(
      conv2d(images, weight), "conv2d", [&] { images.div_(2); }, "div_");
  const Tensor own = custom_function(
      "mine", {x}, [](std::span<const Array> in) { return in[0].copy(); },
      [](std::span<const Array>, const Array&, const Array& dy) { return std::vector<Array>{dy}; });
  check_noticed(
      own, "mine", [&] { x.copy_(constant({1}, {1})); }, "copy_");
}

TEST_CASE("versions: what is not saved may be written, and so may a new value in its place") {
  Tensor x = leaf({1, 2, 3});
  const Tensor sums = sum(x + 1);
  const Tensor squares = sum(x * x);
  {
    const NoGrad no_grad;
    const Array old = x.array();
    x.set_array(constant({9, 9, 9}, {3}).array());  // the graph keeps the old one
    x.mul_(2);
  }
  backward(sums);
  CHECK(x.grad().to_vector<double>() == Values{1, 1, 1});
  backward(squares);
  CHECK(x.grad().to_vector<double>() == Values{3, 5, 7});
  CHECK(x.to_vector<double>() == Values{18, 18, 18});
}

TEST_CASE("versions: a graph that is retained notices a step between its backwards") {
  const Tensor x = leaf({1, 2});
  const Tensor y = sum(x * x);
  backward(y, {.retain_graph = true});
  {
    const NoGrad no_grad;
    x.sub_(0.5);
  }
  CHECK_THROWS_WITH_AS(backward(y), doctest::Contains("multiply saved a value of shape [2]"), AutodiffError);
}

// --- writing

TEST_CASE("in place: values, views, broadcasting, types") {
  const Tensor x = constant({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor same = x.add_(1).mul_(2).sub_(constant({1, 2, 3}, {3})).div_(2);
  CHECK(same.is_same(x));
  CHECK(x.to_vector<double>() == Values{1.5, 2, 2.5, 4.5, 5, 5.5});
  x.slice(1, 0, 3, 2).fill_(0);
  x.transpose()[1].copy_(constant({7, 8}, {2}));
  CHECK(x.to_vector<double>() == Values{0, 7, 0, 0, 8, 0});
  x.transpose().add_(constant({1, 2}, {2}));
  CHECK(x.to_vector<double>() == Values{1, 8, 1, 2, 10, 2});
  const Tensor narrow(Array::zeros({2}, DType::bf16, test_device()));
  narrow.add_(constant({1.5, 2.5}, {2}));
  CHECK(narrow.dtype() == DType::bf16);
  CHECK(narrow.cast(DType::f64).to_vector<double>() == Values{1.5, 2.5});
  const Tensor whole = index({5, 7}, {2});
  whole.add_(1).mul_(index({2}, {1}));
  CHECK(whole.to_vector<std::int64_t>() == std::vector<std::int64_t>{12, 16});
  whole.copy_(constant({1.9, -1.9}, {2}));
  CHECK(whole.to_vector<std::int64_t>() == std::vector<std::int64_t>{1, -1});
  Tensor(Array::zeros({0, 3}, DType::f64, test_device())).add_(1);
}

TEST_CASE("in place: operands that share the memory are read first") {
  const Tensor x = constant({1, 2, 3, 4}, {4});
  x.slice(0, 1, 4).copy_(x.slice(0, 0, 3));
  CHECK(x.to_vector<double>() == Values{1, 1, 2, 3});
  x.slice(0, 1, 4).add_(x.slice(0, 0, 3));
  CHECK(x.to_vector<double>() == Values{1, 2, 3, 5});
  x.mul_(x);
  CHECK(x.to_vector<double>() == Values{1, 4, 9, 25});
}

TEST_CASE("in place: between devices") {
  const Tensor x = constant({1, 2}, {2});
  x.copy_(constant({3, 4}, {2}, test_device(1)));
  CHECK(x.to_vector<double>() == Values{3, 4});
  CHECK_THROWS_AS(x.add_(constant({3, 4}, {2}, test_device(1))), DeviceError);
}

TEST_CASE("in place: a leaf that requires a gradient is written to under NoGrad only") {
  const Tensor x = leaf({1, 2});
  CHECK_THROWS_WITH_AS(x.add_(1), doctest::Contains("[add_] a leaf that requires a gradient"), AutodiffError);
  CHECK_THROWS_WITH_AS(x[0].fill_(1), doctest::Contains("made by index"), AutodiffError);
  const NoGrad no_grad;
  x.add_(1);
  x[0].fill_(0);
  CHECK(x.to_vector<double>() == Values{0, 3});
}

TEST_CASE("in place: a literal is converted, as by NumPy and PyTorch") {
  const Tensor x = index({1, 2}, {2});
  x.fill_(2.0);
  CHECK(x.to_vector<std::int64_t>() == std::vector<std::int64_t>{2, 2});
  x.fill_(-2.75);
  CHECK(x.to_vector<std::int64_t>() == std::vector<std::int64_t>{-2, -2});
  const Tensor mask(Array::zeros({1}, DType::boolean, test_device()));
  mask.fill_(1);
  CHECK(mask.item<bool>());
}

TEST_CASE("in place: += under NoGrad would lose a parameter, and is refused") {
  Tensor p = leaf({1, 2});
  const NoGrad no_grad;
  CHECK_THROWS_WITH_AS(p -= p * 0.5, doctest::Contains("[operator-=] on the left is a leaf"), AutodiffError);
  CHECK_THROWS_WITH_AS(p *= 2, doctest::Contains("Write into it by mul_"), AutodiffError);
  CHECK(p.requires_grad());
  p.sub_(p * 0.5);
  CHECK(p.to_vector<double>() == Values{0.5, 1});
  Tensor total = p * 1;
  total += p;
  CHECK(total.to_vector<double>() == Values{1, 2});
  p.copy_(3);
  CHECK(p.to_vector<double>() == Values{3, 3});
  const Inference evaluation;  // where nobody writes parameters, and forwards do as in training
  Tensor scaled = p;
  scaled *= 2;
  CHECK(scaled.to_vector<double>() == Values{6, 6});
  CHECK(p.to_vector<double>() == Values{3, 3});
}

TEST_CASE("in place: what is refused") {
  const Tensor x = constant({1, 2}, {2});
  const Tensor p = leaf({1, 2});
  const Tensor y = p * 2;
  CHECK_THROWS_WITH_AS(x.mul_(p), doctest::Contains("[mul_] the value requires a gradient"), AutodiffError);
  CHECK_THROWS_WITH_AS(x.copy_(y), doctest::Contains("[copy_] the value requires a gradient"), AutodiffError);
  CHECK_THROWS_WITH_AS(x.add_(constant({1, 2, 3}, {3})), doctest::Contains("[add_]"), ShapeError);
  CHECK_THROWS_WITH_AS(x.add_(constant({1, 2}, {2, 1})), doctest::Contains("[2, 1] does not fit into [2]"), ShapeError);
  CHECK_THROWS_WITH_AS(x.copy_(constant({1, 2}, {2, 1})), doctest::Contains("[copy_]"), ShapeError);
  CHECK_THROWS_WITH_AS(broadcast_to(x, {3, 2}).fill_(1), doctest::Contains("one place"), ShapeError);
  CHECK_THROWS_WITH_AS(index({1, 2}, {2}).mul_(0.5), doctest::Contains("which i64 cannot hold"), DTypeError);
  CHECK_THROWS_WITH_AS(cast(index({1, 2}, {2}), DType::u8).fill_(300), doctest::Contains("[fill_] 300 is no u8"),
                       DTypeError);
  CHECK_THROWS_WITH_AS(cast(index({1, 2}, {2}), DType::u8).copy_(Tensor(-1)), doctest::Contains("[copy_] -1 is no u8"),
                       DTypeError);
  CHECK_THROWS_WITH_AS(Tensor(1.0).fill_(2), doctest::Contains("literal"), AutodiffError);
  CHECK_THROWS_AS(Tensor().fill_(2), AutodiffError);
  CHECK(x.to_vector<double>() == Values{1, 2});
  const NoGrad no_grad;
  CHECK_THROWS_WITH_AS(y.fill_(2), doctest::Contains("made by multiply"), AutodiffError);
  x.mul_(p);
  CHECK(x.to_vector<double>() == Values{1, 4});
}

TEST_CASE("in place: a literal is written exactly, in the type and to the device of what it is written to") {
  Tensor x = constant({1, 2, 3}, {3});
  x[0] = 0.1;
  x[1] = 1e300;
  x[2].copy_(Tensor(1e-300));
  CHECK(x.to_vector<double>() == Values{0.1, 1e300, 1e-300});
  Tensor whole = index({1, 2}, {2});
  whole[1] = 1e15;
  CHECK(whole.to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 1'000'000'000'000'000});
}

TEST_CASE("in place: brackets of what a graph made are not written to, under NoGrad either") {
  const Tensor p = leaf({1, 2});
  Tensor y = p * 2;
  CHECK_THROWS_AS((y[0] = 1), AutodiffError);
  const NoGrad no_grad;
  CHECK_THROWS_AS((y[0] = 1), AutodiffError);
  CHECK(y.to_vector<double>() == Values{2, 4});
  Tensor free = p * 2;
  free[0] = 1;
  CHECK(free.to_vector<double>() == Values{1, 4});
}

TEST_CASE("in place: brackets of a literal are not written to") {
  Tensor literal(1.0);
  CHECK_THROWS_AS((literal[ellipsis] = 2.0), AutodiffError);
  CHECK((full({1}, 3.0) * literal).item() == 3);
  CHECK(literal.item() == 1);
}

}  // namespace
}  // namespace tutti
