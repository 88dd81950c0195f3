// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/tensor.h>

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <string>
#include <thread>
#include <type_traits>
#include <vector>

namespace tutti {
namespace {

Tensor ones(DType dtype, Device device = test_device()) { return Tensor(Array::full({2}, 1, dtype, device)); }

TEST_CASE("tensor: leaves and constants") {
  const Tensor undefined;
  CHECK_FALSE(undefined.defined());
  CHECK_FALSE(undefined.requires_grad());
  CHECK_THROWS_AS(undefined.array(), AutodiffError);

  const Tensor c = constant({1, 2}, {2});
  CHECK(c.is_leaf());
  CHECK_FALSE(c.requires_grad());
  CHECK_THROWS_WITH_AS(c.gradient_slot(), "[gradient] this tensor requires none: call set_requires_grad(true) first",
                       AutodiffError);
  CHECK_THROWS_AS(undefined.gradient_slot(), AutodiffError);
  CHECK_FALSE(c.grad().defined());
  CHECK_THROWS_AS(undefined.grad(), AutodiffError);

  const Tensor x = leaf({1, 2});
  CHECK(x.is_leaf());
  CHECK(x.requires_grad());
  CHECK(x.node() == nullptr);
  CHECK_FALSE(x.grad().defined());

  const Tensor y = x * c;
  CHECK_FALSE(y.is_leaf());
  CHECK(y.requires_grad());
  REQUIRE(y.node() != nullptr);
  CHECK(y.node()->name() == "multiply");
  CHECK_THROWS_WITH_AS(y.gradient_slot(), doctest::Contains("made by multiply"), AutodiffError);
  CHECK_THROWS_WITH_AS(y.grad(), doctest::Contains("made by multiply: only leaves (parameters, inputs) keep"),
                       AutodiffError);
  CHECK_THROWS_WITH_AS(flatten(y, 0).grad(), doctest::Contains("made by flatten"), AutodiffError);
  Tensor frozen = leaf({1, 2});
  backward(sum(frozen * x));
  frozen.set_requires_grad(false);
  frozen.zero_grad();
  CHECK_FALSE(frozen.grad().defined());
  x.detach().zero_grad();
  CHECK_FALSE((c * c).requires_grad());
}

TEST_CASE("tensor: copies name the same tensor") {
  const Tensor x = leaf({1, 2});
  Tensor copy = x;  // NOLINT(performance-unnecessary-copy-initialization)
  CHECK(copy.is_same(x));
  CHECK(copy.identity() == x.identity());
  copy.set_array(Array::from(Values{3, 4}, {2}, test_device()));
  CHECK(x.to_vector<double>() == Values{3, 4});
}

TEST_CASE("tensor: detach shares storage and leaves the graph") {
  const Tensor x = leaf({1, 2});
  const Tensor y = (x * x).detach();
  CHECK_FALSE(y.requires_grad());
  CHECK(x.detach().array().storage() == x.array().storage());
  CHECK_FALSE(x.detach().is_same(x));
  CHECK(Tensor(2).detach().is_weak_scalar());
}

TEST_CASE("NoGrad: nests, and concerns its own thread only") {
  const Tensor x = leaf({1, 2});
  {
    const NoGrad outer;
    CHECK_FALSE(grad_enabled());
    CHECK_FALSE((x * x).requires_grad());
    {
      const EnableGrad inner;
      CHECK((x * x).requires_grad());
    }
    { const NoGrad inner; }
    CHECK_FALSE(grad_enabled());
    bool other_thread_records = false;
    std::thread([&] { other_thread_records = grad_enabled(); }).join();
    CHECK(other_thread_records);
  }
  CHECK(grad_enabled());
  CHECK((x * x).requires_grad());
}

TEST_CASE("set_requires_grad: floating leaves choose") {
  Tensor x = constant({1, 2}, {2});
  CHECK(x.set_requires_grad(true).is_same(x));
  CHECK(x.requires_grad());
  x.gradient_slot().state = GradientState::settled;
  x.set_requires_grad(true);  // keeps the slot
  CHECK(x.gradient_slot().state == GradientState::settled);
  x.set_requires_grad(false);
  CHECK_FALSE(x.requires_grad());

  Tensor made = leaf({1}) * 2;
  CHECK_THROWS_WITH_AS(made.set_requires_grad(false), doctest::Contains("made by multiply"), AutodiffError);
  Tensor integers = ones(DType::i64);
  CHECK_THROWS_WITH_AS(integers.set_requires_grad(true), doctest::Contains("i64"), AutodiffError);
  CHECK_THROWS_AS(Tensor(Array::full({2}, true, DType::boolean, test_device()), true), AutodiffError);
  Tensor literal(1.5);
  CHECK_THROWS_WITH_AS(literal.set_requires_grad(true), doctest::Contains("literal"), AutodiffError);
}

TEST_CASE("set_array: refuses what is not the same kind of value") {
  Tensor x = leaf({1, 2});
  CHECK_THROWS_AS(x.set_array(Array::zeros({3}, DType::f64, test_device())), ShapeError);
  CHECK_THROWS_AS(x.set_array(Array::zeros({2}, DType::f32, test_device())), DTypeError);
  CHECK_THROWS_WITH_AS(x.set_array(Array::zeros({2}, DType::f64, test_device(1))),
                       doctest::Contains(as_tested("cpu:1 in place of cpu:0")), DeviceError);
  Tensor made = x * 2;
  CHECK_THROWS_WITH_AS(made.set_array(Array::zeros({2}, DType::f64, test_device())), doctest::Contains("multiply"),
                       AutodiffError);
  CHECK(x.to_vector<double>() == Values{1, 2});
}

TEST_CASE("literals: on either side of every operator") {
  const Tensor x = constant({1, -2}, {2});
  CHECK((2 * x + 1).to_vector<double>() == Values{3, -3});
  CHECK((1 - x).to_vector<double>() == Values{0, 3});
  CHECK((x - 0.5F).to_vector<double>() == Values{0.5, -2.5});
  CHECK((4 / x).to_vector<double>() == Values{4, -2});
  CHECK((x / 4).to_vector<double>() == Values{0.25, -0.5});
  using Bools = std::vector<bool>;
  CHECK((x > 0).to_vector<bool>() == Bools{true, false});
  CHECK((0 > x).to_vector<bool>() == Bools{false, true});
  CHECK((x >= 1).to_vector<bool>() == Bools{true, false});
  CHECK((x < -1.5).to_vector<bool>() == Bools{false, true});
  CHECK((x <= 1).to_vector<bool>() == Bools{true, true});
  CHECK((x == 1).to_vector<bool>() == Bools{true, false});
  CHECK((1 != x).to_vector<bool>() == Bools{false, true});
}

TEST_CASE("literals: of every arithmetic type") {
  CHECK(Tensor(5U).dtype() == DType::i64);
  CHECK(Tensor(std::size_t{7}).item<int>() == 7);
  CHECK(Tensor(true).dtype() == DType::boolean);
  CHECK(Tensor(2.5F).item<double>() == 2.5);
}

TEST_CASE("literals: take the other operand's type unless they would lose their kind") {
  struct Row {
    DType tensor, beside_int, beside_float, beside_bool;
  };
  const Row rows[] = {{DType::f64, DType::f64, DType::f64, DType::f64},
                      {DType::f32, DType::f32, DType::f32, DType::f32},
                      {DType::i64, DType::i64, DType::f32, DType::i64},
                      {DType::i32, DType::i32, DType::f32, DType::i32},
                      {DType::boolean, DType::i64, DType::f32, DType::i64}};  // numbers only: bool + bool counts
  for (const Row& row : rows) {
    CAPTURE(to_string(row.tensor));
    const Tensor x = ones(row.tensor);
    CHECK((x + 1).dtype() == row.beside_int);
    CHECK((1 + x).dtype() == row.beside_int);
    CHECK((x * 1.5).dtype() == row.beside_float);
    CHECK((1.5F * x).dtype() == row.beside_float);
    CHECK((x + true).dtype() == row.beside_bool);
  }
  CHECK((ones(DType::i32) < 1.5).to_vector<bool>() == std::vector<bool>{true, true});  // not rounded to 1
  const std::int64_t large = (std::int64_t{1} << 53) + 1;                              // no double
  CHECK((ones(DType::i64) * large).to_vector<std::int64_t>() == std::vector<std::int64_t>{large, large});
  CHECK((Tensor(1) + Tensor(2)).item<std::int64_t>() == 3);
  CHECK((Tensor(1) + Tensor(2.5)).item<float>() == 3.5F);
}

TEST_CASE("promotion: the smallest type that holds both") {
  for (const DType a : kAllDTypes)
    for (const DType b : kAllDTypes) {
      CAPTURE(to_string(a));
      CAPTURE(to_string(b));
      const DType both = promote(a, b);
      const bool bools = both == DType::boolean;
      CHECK((ones(a) + ones(b)).dtype() == (bools ? DType::i64 : both));
      CHECK((ones(a) + ones(b)).array().cast(DType::f64).to_vector<double>() == Values{2, 2});
      CHECK((ones(a) / ones(b)).dtype() == (is_floating(both) ? both : DType::f32));
      CHECK((ones(a) == ones(b)).dtype() == DType::boolean);
      CHECK((ones(a) < ones(b)).dtype() == DType::boolean);
      CHECK(where(ones(DType::boolean), ones(a), ones(b)).dtype() == both);
      CHECK(floor_divide(ones(a), ones(b)).dtype() == (bools ? DType::i64 : both));
    }
  for (const DType dtype : kAllDTypes) CHECK(exp(ones(dtype)).dtype() == (is_floating(dtype) ? dtype : DType::f32));
  CHECK(abs(ones(DType::i32)).dtype() == DType::i32);
}

TEST_CASE("promotion: gradients come back in each operand's own type") {
  const Tensor x(Array::full({2}, 3, DType::f32, test_device()), true);
  const Tensor y = leaf({1, 2});
  const Tensor product = x * y;
  CHECK(product.dtype() == DType::f64);
  const Tensor inputs[] = {x, y};
  const std::vector<Tensor> gradients = grad(product, inputs);
  CHECK(gradients[0].to_vector<float>() == std::vector<float>{1, 2});
  CHECK(gradients[1].to_vector<double>() == Values{3, 3});
}

TEST_CASE("devices: operands stay where they are; literals go along") {
  const Tensor here = ones(DType::f32, test_device());
  const Tensor there = ones(DType::f32, test_device(1));
  const auto names_both = [](const auto& run, const std::string& operation) {
    try {
      run();
    } catch (const DeviceError& error) {
      const std::string text = error.what();
      CAPTURE(text);
      CHECK(text.find("[" + operation) == 0);
      CHECK(text.find(as_tested("cpu:0")) != std::string::npos);
      CHECK(text.find(as_tested("cpu:1")) != std::string::npos);
      return;
    }
    FAIL_CHECK(operation << " took operands on different devices");
  };
  names_both([&] { return here + there; }, "add");
  names_both([&] { return here < there; }, "less");
  names_both([&] { return maximum(there, here); }, "maximum");
  names_both([&] { return where(ones(DType::boolean, test_device(1)), here, here); }, "where");
  names_both([&] { return matmul(reshape(here, {1, 2}), reshape(there, {2, 1})); }, "matmul");
  const Tensor both[] = {here, there};
  names_both([&] { return concatenate(both, 0); }, "concatenate");
  CHECK((here + to(there, test_device())).device() == test_device());

  CHECK((2 * there + 1).device() == test_device(1));
  CHECK((2 * there + 1).to_vector<float>() == std::vector<float>{3, 3});
  const Tensor literal(2.0);
  CHECK((literal * here).device() == test_device());
  CHECK((literal * there).device() == test_device(1));  // also after its array was made for cpu:0
  CHECK(literal.item<float>() == 2.0F);
  CHECK((literal * there).device() == test_device(1));
  CHECK(where(there > 0, Tensor(1), Tensor(0)).device() == test_device(1));
}

TEST_CASE("tensor: += and its like are recorded, and give the variable a new tensor") {
  const Tensor x = leaf({2, 4});
  Tensor y = x;
  y *= x;
  y += 1;
  y -= x;
  y /= 2;
  CHECK(x.to_vector<double>() == std::vector<double>{2, 4});
  CHECK(y.to_vector<double>() == std::vector<double>{1.5, 6.5});
  backward(sum(y));
  CHECK(x.grad().to_vector<double>() == std::vector<double>{1.5, 3.5});
}

TEST_CASE("tensor: sizes and items by PyTorch's names") {
  const Tensor x = leaf({1, -2, 3, 4, 5, 6}, {2, 3});
  CHECK(x.size(0) == 2);
  CHECK(x.size(-1) == 3);
  CHECK(x.numel() == 6);
  CHECK(x.dim() == 2);
  CHECK(x[{0, 1}].item() == -2.0);
  CHECK((x[{0, 0}] > 0).item() == 1.0);
  constexpr std::int64_t kExact = std::int64_t{1} << 53;
  const auto whole = [](std::int64_t value) {
    return Tensor(Array::from(std::vector<std::int64_t>{value}, {}, test_device()));
  };
  CHECK(whole(-kExact).item() == -0x1p53);
  CHECK_THROWS_WITH_AS(whole(kExact + 1).item(), doctest::Contains("9007199254740993"), DTypeError);
  CHECK_THROWS_AS(x.item(), ShapeError);
}

TEST_CASE("tensor: operations as members") {
  const Tensor x = leaf({1, -2, 3, 4}, {2, 2});
  const auto same = [](const Tensor& a, const Tensor& b) {
    CHECK(a.shape() == b.shape());
    CHECK(a.to_vector<double>() == b.to_vector<double>());
  };
  same(x.pow(2), pow(x, 2));
  same(x.pow(x), pow(x, x));
  same(x.relu(), relu(x));
  same(x.abs(), abs(x));
  same(x.exp(), exp(x));
  same(x.abs().log(), log(abs(x)));
  same(x.abs().sqrt(), sqrt(abs(x)));
  same(x.sigmoid(), sigmoid(x));
  same(x.tanh(), tanh(x));
  same(x.clip(-1, 2.5), clip(x, -1, 2.5));
  same(x.softmax(0), softmax(x, 0));
  same(x.log_softmax(), log_softmax(x));
  same(x.matmul(x), matmul(x, x));
  same(x.prod(1), prod(x, 1));
  same(x.norm(0, true), norm(x, 0, true));
  CHECK(x.argmax(1).to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 1});
  CHECK(x.argmin().item() == 1);
  backward(x.pow(2).relu().sum());
  CHECK(x.grad().to_vector<double>() == std::vector<double>{2, -4, 6, 8});
}

TEST_CASE("tensor: a view is no copy, or an error") {
  const Tensor x = leaf({1, 2, 3, 4, 5, 6}, {2, 3});
  CHECK(x.view({3, -1}).array().storage() == x.array().storage());
  CHECK_THROWS_WITH_AS(x.transpose().view({6}), doctest::Contains("[view] strides do not allow [6] without a copy"),
                       ShapeError);
  CHECK_THROWS_AS(x.view({4}), ShapeError);
  CHECK(x[range(0, 0)].view({0}).size() == 0);
}

TEST_CASE("tensor: lists that are made at run time stand where written ones do") {
  const Tensor x = leaf({1, 2, 3, 4, 5, 6}, {2, 3});
  const std::vector<int> shape{3, 2};
  const std::vector<std::size_t> lengths{6};
  const std::vector<std::int64_t> axes{1, 0};
  const std::vector<Tensor> parts{x, x};
  const std::vector<Index> entries{all, 1};
  CHECK(x.reshape(shape).shape() == Shape{3, 2});
  CHECK(reshape(x, lengths).shape() == Shape{6});
  CHECK(zeros(shape).shape() == Shape{3, 2});
  CHECK(permute(x, axes).shape() == Shape{3, 2});
  CHECK(sum(x, std::vector<int>{0}).to_vector<double>() == std::vector<double>{5, 7, 9});
  CHECK(concatenate(parts).shape() == Shape{4, 3});
  CHECK(concatenate({x, x}).shape() == Shape{4, 3});
  CHECK(stack(parts, 1).shape() == Shape{2, 2, 3});
  CHECK(einsum("ij,ij->", parts).item() == 91);
  CHECK(x.at(entries).to_vector<double>() == std::vector<double>{2, 5});
  CHECK(slice_assign(x, entries, 0).to_vector<double>() == std::vector<double>{1, 0, 3, 4, 0, 6});
  CHECK(split(x, std::vector<std::int64_t>{1, 2}, 1).size() == 2);
  CHECK(Array::from(std::vector<float>{1, 2}, std::vector<int>{2}).device() == cpu(0));
}

TEST_CASE("tensor: undefined operands are refused by name") {
  CHECK_THROWS_WITH_AS(Tensor() + leaf({1}), doctest::Contains("[add]"), AutodiffError);
  CHECK_THROWS_WITH_AS(exp(Tensor()), doctest::Contains("[exp]"), AutodiffError);
}

}  // namespace
}  // namespace tutti
