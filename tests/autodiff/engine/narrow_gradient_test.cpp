// SPDX-License-Identifier: Apache-2.0
// Gradients of 16-bit leaves against those of the same numbers in f64.
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>
#include <tutti/tests/autodiff/operations/elementwise_calls.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <cmath>

namespace tutti {
namespace {

using Inputs = std::vector<Tensor>;

Tensor leaf_of(const Tensor& x, DType dtype) { return Tensor(x.array().cast(dtype).copy(), true); }

/// Value and gradients of `f` differ from those in f64 by a few roundings to 8 bits.
void check_against_f64(const std::string& name, const CheckedFunction& f, const Inputs& inputs) {
  constexpr double kTolerance = 1e-2;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    CAPTURE(name);
    CAPTURE(to_string(dtype));
    Inputs narrow;
    Inputs wide;
    for (const Tensor& input : inputs) {
      const bool number = is_floating(input.dtype());
      narrow.push_back(number ? leaf_of(input, dtype) : input);
      wide.push_back(number ? leaf_of(narrow.back(), DType::f64) : input);
    }
    const auto compare = [](const Tensor& found, const Tensor& expected, DType wanted) {
      CHECK(found.dtype() == wanted);
      REQUIRE(found.shape() == expected.shape());
      const Values got = found.array().cast(DType::f64).to_vector<double>();
      const Values want = expected.to_vector<double>();
      for (std::size_t i = 0; i < got.size(); ++i)
        CHECK(std::abs(got[i] - want[i]) <= kTolerance * (1 + std::abs(want[i])));
    };
    const Tensor y = f(narrow);
    const Tensor expected = f(wide);
    compare(y, expected, dtype);
    if (!y.requires_grad()) continue;
    backward(sum(y));
    backward(sum(expected));
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (narrow[i].requires_grad()) compare(Tensor(narrow[i].grad()), Tensor(wide[i].grad()), dtype);
  }
}

TEST_CASE("narrow gradients: each elementwise operation, broadcast") {
  ew::UnaryOperations::for_each([]<class Operation>(std::type_identity<Operation>) {
    const auto f = [](const Inputs& in) { return call(Operation{}, in[0]); };
    for (const Shape& shape : {Shape{3, 5}, Shape{}, Shape{0}})
      check_against_f64(Operation::name, f, {smooth_numbers<Operation>(shape, 1)});
  });
  ew::BinaryOperations::for_each([]<class Operation>(std::type_identity<Operation>) {
    if constexpr (kDifferentiable<Operation>) {
      const auto f = [](const Inputs& in) { return call(Operation{}, in[0], in[1]); };
      check_against_f64(Operation::name, f, {smooth_numbers<Operation>({3, 2}, 1), spread({2}, 3)});
      check_against_f64(Operation::name, f, {smooth_numbers<Operation>({2, 1}, 1), spread({1, 3}, 3)});
    }
  });
}

TEST_CASE("narrow gradients: structured operations") {
  const auto check = [](const char* name, const CheckedFunction& f, const Inputs& inputs) {
    check_against_f64(name, f, inputs);
  };
  const Tensor x = spread({4, 3}, 1);
  const Tensor w = spread({2, 3}, 2);
  check("matmul", [](const Inputs& in) { return matmul(in[0], transpose(in[1])); }, {x, w});
  check("linear", [](const Inputs& in) { return linear(in[0], in[1], in[2]); }, {x, w, spread({2}, 3)});
  check("softmax", [](const Inputs& in) { return square(softmax(in[0])); }, {x});
  check("log_softmax", [](const Inputs& in) { return log_softmax(in[0], 0) * in[0]; }, {x});
  check("sum", [](const Inputs& in) { return square(sum(in[0], {1})); }, {x});
  check("mean", [](const Inputs& in) { return square(mean(in[0], {0})); }, {x});
  check("max", [](const Inputs& in) { return max(in[0], 1); }, {x});
  check("where", [](const Inputs& in) { return where(in[0] > 0.0, in[0] * 2, in[0] * in[0]); }, {x});
  check("slice", [](const Inputs& in) { return slice(in[0], 0, 1, 3) * 3; }, {x});
  check("concatenate", [](const Inputs& in) { return square(concatenate(in, 0)); }, {x, w});
  check("gather", [](const Inputs& in) { return gather(in[0], 1, in[1]); }, {x, index({0, 0, 2, 1}, {2, 2})});
  check("scatter_add",
        [](const Inputs& in) {
          return square(scatter_add({2, 3}, in[0], 0, in[1]));
        },
        {x, index({0, 1, 0, 1, 1, 1, 0, 0, 0, 1, 0, 1}, {4, 3})});
  check("embedding", [](const Inputs& in) { return square(embedding(in[0], in[1])); }, {x, index({3, 0, 3}, {3})});
  const Tensor image = spread({1, 2, 5, 4}, 1);
  check("conv2d",
        [](const Inputs& in) {
          return conv2d(in[0], in[1], {}, {{1, 1}, {1, 1}, {1, 1}}) * 0.1;
        },
        {image, spread({2, 2, 3, 3}, 4)});
  check("depthwise conv2d",
        [](const Inputs& in) {
          return conv2d(in[0], in[1], {}, {.padding = {1, 1}, .groups = 2}) * 0.1;
        },
        {image, spread({2, 1, 3, 3}, 4)});
  check("avg_pool2d", [](const Inputs& in) { return avg_pool2d(square(in[0]) * 0.1); }, {image});
  check("max_pool2d", [](const Inputs& in) { return max_pool2d(in[0]); }, {image});
}

TEST_CASE("narrow gradients: each operand's own type, and casts pass them on") {
  const Tensor weight = leaf_of(spread({3}, 1), DType::bf16);
  const Tensor master = leaf_of(spread({3}, 2), DType::f32);
  const Tensor y = weight * cast(master, DType::bf16);
  CHECK(y.dtype() == DType::bf16);
  const Tensor z = cast(y, DType::f16) * cast(y, DType::f32);
  CHECK(z.dtype() == DType::f32);
  backward(sum(z));
  CHECK(weight.grad().dtype() == DType::bf16);
  CHECK(master.grad().dtype() == DType::f32);
  CHECK((leaf_of(spread({3}, 1), DType::bf16) + leaf_of(spread({3}, 1), DType::f16)).dtype() == DType::f32);
  CHECK((weight * 0.1).dtype() == DType::bf16);
  CHECK((weight + index({1, 2, 3}, {3})).dtype() == DType::bf16);
  CHECK_FALSE(cast(weight, DType::i8).requires_grad());
  CHECK_THROWS_AS(Tensor(Array::zeros({2}, DType::u8, test_device()), true), AutodiffError);
}

TEST_CASE("narrow means do not overflow on the way") {
  const Tensor x(Array::full({4096}, 100, DType::f16, test_device()), true);
  const Tensor y = mean(x);
  CHECK(y.dtype() == DType::f16);
  CHECK(y.item<double>() == 100.0);  // the sum, 409600, is more than f16 holds
  backward(y * 4096);
  CHECK(x.grad().dtype() == DType::f16);
  CHECK(x.grad().to_vector<Float16>()[17] == 1.0F);
}

TEST_CASE("narrow gradients accumulate") {
  const Tensor x = leaf_of(leaf({1, 2, 3}), DType::bf16);
  for (int i = 0; i < 3; ++i) backward(sum(x * x));
  CHECK(x.grad().array().cast(DType::f64).to_vector<double>() == Values{6, 12, 18});
}

}  // namespace
}  // namespace tutti
