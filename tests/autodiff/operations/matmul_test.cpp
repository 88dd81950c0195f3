// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

namespace tutti {
namespace {

using Inputs = std::vector<Tensor>;

Tensor product(const Inputs& in) { return matmul(in[0], in[1]); }

TEST_CASE("matmul: plain, batched, and broadcast over the batch") {
  const std::pair<Shape, Shape> shapes[] = {{{2, 3}, {3, 4}},       {{1, 3}, {3, 1}},       {{5, 2, 3}, {5, 3, 4}},
                                            {{5, 2, 3}, {3, 4}},    {{2, 3}, {5, 3, 4}},    {{2, 1, 2, 3}, {3, 3, 2}},
                                            {{1, 2, 3}, {4, 3, 2}}, {{0, 2, 3}, {0, 3, 2}}, {{2, 0}, {0, 3}}};
  for (const auto& [a, b] : shapes) {
    CAPTURE(to_string(a));
    CAPTURE(to_string(b));
    CHECK_NOTHROW(check_gradients(product, {spread(a, 1), spread(b, 2)}));
    CHECK_NOTHROW(check_gradients(product, {spread(a, 1).detach(), spread(b, 2)}));
    CHECK_NOTHROW(check_gradients(product, {spread(a, 1), spread(b, 2).detach()}));
  }
}

TEST_CASE("matmul: transposed operands, and one operand twice") {
  const Tensor a = spread({3, 2}, 3);
  const Tensor b = spread({4, 3}, 4);
  check_gradients([](const Inputs& in) { return matmul(transpose(in[0]), transpose(in[1])); }, {a, b});
  check_gradients([](const Inputs& in) { return matmul(in[0], transpose(in[0])); }, {a});
  const Tensor batch = spread({2, 3, 3}, 5);
  check_gradients([](const Inputs& in) { return matmul(transpose(in[0]), in[0]); }, {batch});
  check_gradients(
      [](const Inputs& in) {
        return matmul(permute(in[0], {1, 0, 2}), in[1]);
      },
      {spread({3, 2, 3}, 1), spread({2, 3, 2}, 2)});
}

TEST_CASE("matmul: a gradient has its leaf's layout, so that optimizers need no copy") {
  const Tensor weight = spread({4, 3}, 1);
  backward(sum(square(matmul(spread({2, 3}, 2).detach(), transpose(weight)))));
  CHECK(weight.grad().array().is_contiguous());
}

TEST_CASE("linear: rows of any rank, with and without bias") {
  const auto plain = [](const Inputs& in) { return linear(in[0], in[1]); };
  const auto biased = [](const Inputs& in) { return linear(in[0], in[1], in[2]); };
  const Tensor weight = spread({4, 3}, 1);
  const Tensor bias = spread({4}, 2);
  for (const Shape& shape : {Shape{2, 3}, Shape{3}, Shape{2, 2, 3}, Shape{0, 3}}) {
    CAPTURE(to_string(shape));
    CHECK_NOTHROW(check_gradients(plain, {spread(shape, 3), weight}));
    CHECK_NOTHROW(check_gradients(biased, {spread(shape, 3), weight, bias}));
    Shape expected = shape;
    expected[expected.size() - 1] = 4;
    CHECK(linear(spread(shape, 3), weight, bias).shape() == expected);
  }
  const Tensor y = linear(constant({1, 2}, {1, 2}), constant({3, 4, 5, 6}, {2, 2}), constant({10, 20}, {2}));
  CHECK(y.to_vector<double>() == Values{21, 37});
}

TEST_CASE("linear: an activation is that of the plain result, and so are its gradients, twice") {
  const Tensor weight = spread({4, 3}, 1);
  const Tensor bias = spread({4}, 2);
  for (const auto activation : {LinearActivation::relu, LinearActivation::gelu})
    for (const Shape& shape : {Shape{2, 3}, Shape{3}, Shape{2, 2, 3}}) {
      const bool is_relu = activation == LinearActivation::relu;
      const auto apart = [&](const Tensor& y) { return is_relu ? relu(y) : gelu(y); };
      const Tensor x = spread(shape, 3);
      CHECK(linear(x, weight, bias, activation).to_vector<double>() ==
            apart(linear(x, weight, bias)).to_vector<double>());
      {
        const NoGrad no_grad;
        CHECK(linear(x, weight, {}, activation).to_vector<double>() == apart(linear(x, weight)).to_vector<double>());
      }
      CHECK_NOTHROW(
          check_gradients([&](const Inputs& in) { return linear(in[0], in[1], {}, activation); }, {x, weight}));
      CHECK_NOTHROW(check_gradients([&](const Inputs& in) { return linear(in[0], in[1], in[2], activation); },
                                    {x, weight, bias}));
    }
}

TEST_CASE("linear: of 16 bits too a result does not depend on whether it is recorded") {
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32})
    for (const auto activation : {LinearActivation::relu, LinearActivation::gelu}) {
      CAPTURE(to_string(dtype));
      const Tensor x = (0.01 * spread({32, 16}, 3)).cast(dtype);
      const Tensor weight = (0.01 * spread({24, 16}, 1)).cast(dtype);
      const auto values = [&](const Tensor& y) { return y.detach().cast(DType::f64).to_vector<double>(); };
      const Tensor recorded = linear(x, weight, {}, activation);
      REQUIRE(recorded.requires_grad());
      const NoGrad no_grad;
      CHECK(values(linear(x, weight, {}, activation)) == values(recorded));
    }
}

TEST_CASE("linear: promotes its three operands to one dtype") {
  const Tensor x(Array::from(std::vector<float>{1, 2}, {1, 2}, test_device()));
  const Tensor y = linear(x, Tensor(Array::from(std::vector<float>{3, 4}, {1, 2}, test_device())), constant({10}, {1}));
  CHECK(y.dtype() == DType::f64);
  CHECK(y.to_vector<double>() == Values{21});
  const Tensor counts(Array::from(std::vector<std::int64_t>{1, 2}, {1, 2}, test_device()));
  CHECK(linear(counts, constant({3, 4}, {1, 2})).to_vector<double>() == Values{11});
}

TEST_CASE("matmul, linear: operands that do not fit are named") {
  CHECK_THROWS_WITH_AS(matmul(spread({2, 3}, 1), spread({2, 3}, 2)), doctest::Contains("[matmul]"), ShapeError);
  CHECK_THROWS_WITH_AS(linear(spread({2, 3}, 1), spread({2, 4}, 2)), doctest::Contains("[linear]"), ShapeError);
  CHECK_THROWS_WITH_AS(linear(spread({2, 3}, 1), spread({4, 3}, 2), spread({3}, 3)), doctest::Contains("bias"),
                       ShapeError);
}

TEST_CASE("matmul: a vector is a row on the left and a column on the right") {
  const Tensor matrix = spread({2, 3}, 1);
  const Tensor row = spread({2}, 2);
  const Tensor column = spread({3}, 3);
  CHECK(matmul(row, matrix).shape() == Shape{3});
  CHECK(matmul(matrix, column).shape() == Shape{2});
  CHECK(matmul(column, column).shape() == Shape{});
  CHECK(matmul(spread({4, 2, 3}, 4), column).shape() == Shape{4, 2});
  CHECK(matmul(row, spread({4, 2, 3}, 4)).shape() == Shape{4, 3});
  CHECK(matmul(column, column).item<double>() == doctest::Approx(sum(column * column).item<double>()));
  check_gradients([](const std::vector<Tensor>& in) { return matmul(in[0], matmul(in[1], in[2])); },
                  {row, matrix, column});
  CHECK_THROWS_AS(matmul(row, column), ShapeError);
  CHECK_THROWS_AS(matmul(leaf({1}, {}), column), ShapeError);
}

}  // namespace
}  // namespace tutti
