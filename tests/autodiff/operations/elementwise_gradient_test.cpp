// SPDX-License-Identifier: Apache-2.0
// Made from the lists in backend/elementwise.
#include <tutti/autodiff/operations/elementwise_operations.h>

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/elementwise/lists.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>
#include <tutti/tests/autodiff/operations/elementwise_calls.h>
#include <tutti/tests/close.h>

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace tutti {
namespace {

using testing::check_close;

// A gradient is one fused kernel, or, to be differentiated again, composed of operations: the same numbers.
void check_fused_as_composed(const Tensor& y, const std::vector<Tensor>& inputs) {
  const std::vector<Tensor> composed = grad(y, inputs, {.create_graph = true});
  const std::vector<Tensor> fused = grad(y, inputs, {.retain_graph = true});
  for (std::size_t i = 0; i < inputs.size(); ++i)
    check_close(fused[i].to_vector<double>(), composed[i].to_vector<double>());
}

TEST_CASE("elementwise: each unary operation computes its struct's formula") {
  ew::UnaryOperations::for_each([]<class Operation>(std::type_identity<Operation>) {
    CAPTURE(Operation::name);
    const Tensor x = smooth_numbers<Operation>({2, 3}, 1);
    Values expected;
    for (const double value : x.to_vector<double>()) expected.push_back(Operation{}.value(value));
    const Tensor y = call(Operation{}, x);
    check_close(y.to_vector<double>(), expected);
    REQUIRE(y.requires_grad() == kDifferentiable<Operation>);
    CHECK(y.node()->name() == Operation::name);
  });
}

TEST_CASE("elementwise: each unary operation's first and second derivative") {
  ew::UnaryOperations::for_each([]<class Operation>(std::type_identity<Operation>) {
    CAPTURE(Operation::name);
    static_assert(kDifferentiable<Operation>, "say here what a unary operation without a gradient does");
    const auto f = [](const std::vector<Tensor>& in) { return call(Operation{}, in[0]); };
    for (const Shape& shape : {Shape{2, 3}, Shape{}, Shape{0}}) {
      const Tensor x = smooth_numbers<Operation>(shape, 2);
      CHECK_NOTHROW(gradcheck(f, {x}));
      if constexpr (Operation::needs != ew::Needs::zero) CHECK_NOTHROW(gradgradcheck(f, {x}));
      check_fused_as_composed(sum(f({x})), {x});
    }
  });
}

TEST_CASE("elementwise: each binary operation's first and second derivative, broadcast") {
  const std::pair<Shape, Shape> shapes[] = {{{2, 3}, {2, 3}}, {{2, 3}, {3}},      {{2, 3}, {2, 1}}, {{2, 3}, {}},
                                            {{3}, {2, 3}},    {{2, 1}, {1, 3}},   {{}, {2, 3}},     {{}, {}},
                                            {{2, 0}, {1}},    {{1, 2}, {3, 1, 1}}};
  ew::BinaryOperations::for_each([&]<class Operation>(std::type_identity<Operation>) {
    if constexpr (kDifferentiable<Operation>) {
      CAPTURE(Operation::name);
      const auto f = [](const std::vector<Tensor>& in) { return call(Operation{}, in[0], in[1]); };
      const auto check = [&](const std::vector<Tensor>& in) {
        CHECK_NOTHROW(gradcheck(f, in));
        if constexpr (Operation::needs != ew::Needs::zero) CHECK_NOTHROW(gradgradcheck(f, in));
      };
      for (const auto& [shape_a, shape_b] : shapes) {
        CAPTURE(to_string(shape_a));
        CAPTURE(to_string(shape_b));
        const Tensor a = smooth_numbers<Operation>(shape_a, 1);
        const Tensor b = spread(shape_b, 3);
        check({a, b});
        check({a.detach(), b});
        check({a, b.detach()});
        check_fused_as_composed(sum(f({a, b})), {a, b});
      }
    }
  });
}

TEST_CASE("elementwise: each binary operation computes its struct's formula") {
  ew::BinaryOperations::for_each([]<class Operation>(std::type_identity<Operation>) {
    CAPTURE(Operation::name);
    if constexpr (Operation::domain == ew::Domain::bits) {
      const std::vector<std::int64_t> a{7, -7, 7, -7, 6};
      const std::vector<std::int64_t> b{2, 2, -2, -2, 3};
      std::vector<std::int64_t> expected;
      for (std::size_t i = 0; i < a.size(); ++i) expected.push_back(Operation{}.value(a[i], b[i]));
      CHECK(call(Operation{}, index(a, {5}), index(b, {5})).template to_vector<std::int64_t>() == expected);
      CHECK_THROWS_WITH_AS(call(Operation{}, leaf({1}), leaf({2})), doctest::Contains(Operation::name), DTypeError);
    } else {
      const Tensor a = smooth_numbers<Operation>({5}, 1);
      const Tensor b = spread({5}, 3);
      Values expected;
      for (std::size_t i = 0; i < 5; ++i)
        expected.push_back(Operation{}.value(a.to_vector<double>()[i], b.to_vector<double>()[i]));
      const Tensor y = call(Operation{}, a, b);
      check_close(y.template to_vector<double>(), expected);
      REQUIRE(y.requires_grad() == kDifferentiable<Operation>);
      CHECK(y.node()->name() == Operation::name);
    }
  });
}

TEST_CASE("elementwise: each comparison gives bool, and no gradient") {
  ew::Comparisons::for_each([]<class Operation>(std::type_identity<Operation>) {
    CAPTURE(Operation::name);
    const Values a{1, 2, 3};
    std::vector<bool> expected;
    for (const double value : a) expected.push_back(Operation{}.value(value, 2.0));
    const Tensor mask = call(Operation{}, leaf(a), leaf({2}));
    CHECK(mask.to_vector<bool>() == expected);
    CHECK_FALSE(mask.requires_grad());
  });
}

TEST_CASE("elementwise: operands that cannot be broadcast are refused by name") {
  ew::BinaryOperations::for_each([]<class Operation>(std::type_identity<Operation>) {
    const std::string name = "[" + std::string(Operation::name) + "]";
    const auto run = [] { return call(Operation{}, index({1, 2}, {2}), index({1, 2, 3}, {3})); };
    CHECK_THROWS_WITH_AS(run(), doctest::Contains(name.c_str()), ShapeError);
  });
}

TEST_CASE("leaky_relu: the slope reaches value and gradient") {
  const Tensor x = leaf({-2, 3});
  const Tensor y = leaky_relu(x, 0.25);
  CHECK(y.to_vector<double>() == Values{-0.5, 3});
  backward(sum(y));
  CHECK(x.grad().to_vector<double>() == Values{0.25, 1});
}

}  // namespace
}  // namespace tutti
