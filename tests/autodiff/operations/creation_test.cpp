// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/operations/creation.h>

#include <doctest/doctest.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>

#include <cmath>
#include <limits>
#include <vector>

using namespace tutti;

namespace {

TensorOptions here(std::optional<DType> dtype = {}) { return {.dtype = dtype, .device = test_device()}; }

void check_tensor(const Tensor& x, DType dtype, const Shape& shape, const Values& expected) {
  CHECK(x.dtype() == dtype);
  CHECK(x.shape() == shape);
  CHECK(x.device() == test_device());
  CHECK_FALSE(x.requires_grad());
  CHECK(cast(x, DType::f64).to_vector<double>() == expected);
}

}  // namespace

TEST_CASE("tensor: braces are axes, and literals say what they are of") {
  check_tensor(tensor({1, 2, 3}, here()), DType::i64, {3}, {1, 2, 3});
  check_tensor(tensor({{1, 2}, {3, 4}, {5, 6}}, here()), DType::i64, {3, 2}, {1, 2, 3, 4, 5, 6});
  check_tensor(tensor({{{1.5, 2}}, {{3, 4}}}, here()), DType::f32, {2, 1, 2}, {1.5, 2, 3, 4});
  check_tensor(tensor({{1}, {2}}, here()), DType::i64, {2, 1}, {1, 2});
  check_tensor(tensor({{1, 2}}, here()), DType::i64, {1, 2}, {1, 2});
  check_tensor(tensor({true, false}, here()), DType::boolean, {2}, {1, 0});
  check_tensor(tensor({true, 3}, here()), DType::i64, {2}, {1, 3});
  check_tensor(tensor(2.5F, here()), DType::f32, {}, {2.5});
  check_tensor(tensor({7}, here()), DType::i64, {1}, {7});
  check_tensor(tensor({}, here()), DType::f32, {0}, {});
  check_tensor(tensor({{}, {}}, here()), DType::f32, {2, 0}, {});
  check_tensor(tensor({0.1, 0.2}, here(DType::f64)), DType::f64, {2}, {0.1, 0.2});
  check_tensor(tensor({200, 0.75}, here(DType::u8)), DType::u8, {2}, {200, 0});
  CHECK(tensor({1.0, 2.0}, {.requires_grad = true}).requires_grad());
}

TEST_CASE("tensor: of the host's values") {
  check_tensor(tensor(std::vector<float>{1, 2, 3, 4}, {2, 2}, here()), DType::f32, {2, 2}, {1, 2, 3, 4});
  check_tensor(tensor(std::vector<double>{0.1}, {1}, here()), DType::f64, {1}, {0.1});
  check_tensor(tensor(std::vector<bool>{true, false}, {2}, here()), DType::boolean, {2}, {1, 0});
  check_tensor(tensor(std::vector<int>{3, 4}, {2}, here(DType::bf16)), DType::bf16, {2}, {3, 4});
  check_tensor(tensor(std::vector<std::int64_t>{5, 6}, here()), DType::i64, {2}, {5, 6});
  const float pixels[] = {1, 2};
  CHECK(tensor(std::span<const float>(pixels), {1, 2}, {.requires_grad = true}).requires_grad());
  std::vector<float> changing{1, 2};
  check_tensor(tensor(std::span<float>(changing), {2}, here()), DType::f32, {2}, {1, 2});
}

TEST_CASE("tensor: what does not fit is refused by name") {
  CHECK_THROWS_WITH_AS(tensor({{1, 2}, {3}}), "[tensor] rows of shapes [2] and [1] in one pair of braces", ShapeError);
  CHECK_THROWS_AS(tensor({1, {2}}), ShapeError);
  CHECK_THROWS_WITH_AS(tensor({1, 300}, {.dtype = DType::u8}), "[tensor] 300 is no u8", DTypeError);
  CHECK_THROWS_AS(tensor(std::vector<float>{1, 2}, {3}), ShapeError);
  CHECK_THROWS_AS(tensor({1, 2}, {.requires_grad = true}), AutodiffError);
}

TEST_CASE("zeros, ones, full: of f32 or the literal's type, and like another") {
  check_tensor(zeros({2}, here()), DType::f32, {2}, {0, 0});
  check_tensor(ones({1, 2}, here(DType::i32)), DType::i32, {1, 2}, {1, 1});
  check_tensor(full({2}, 7, here()), DType::i64, {2}, {7, 7});
  check_tensor(full({}, 0.5, here()), DType::f32, {}, {0.5});
  check_tensor(full({1}, true, here()), DType::boolean, {1}, {1});
  CHECK(zeros({2}, {.device = test_device(), .requires_grad = true}).requires_grad());
  const Tensor x = leaf({1, 2});
  check_tensor(zeros_like(x), DType::f64, {2}, {0, 0});
  check_tensor(ones_like(x), DType::f64, {2}, {1, 1});
  check_tensor(full_like(x, -3), DType::f64, {2}, {-3, -3});
  CHECK_THROWS_WITH_AS(zeros_like(Tensor()), "[zeros_like] the operand is undefined", AutodiffError);
  CHECK_THROWS_WITH_AS(zeros({-1}), doctest::Contains("[zeros] negative length"), ShapeError);
}

TEST_CASE("arange: as NumPy's") {
  check_tensor(arange(4, here()), DType::i64, {4}, {0, 1, 2, 3});
  check_tensor(arange(2, 5, here()), DType::i64, {3}, {2, 3, 4});
  check_tensor(arange(0, 7, 3, here()), DType::i64, {3}, {0, 3, 6});
  check_tensor(arange(0, 6, 3, here()), DType::i64, {2}, {0, 3});
  check_tensor(arange(5, 0, -2, here()), DType::i64, {3}, {5, 3, 1});
  check_tensor(arange(5, 2, here()), DType::i64, {0}, {});
  check_tensor(arange(0, 5, -1, here()), DType::i64, {0}, {});
  check_tensor(arange(0, 1, 0.25, here()), DType::f32, {4}, {0, 0.25, 0.5, 0.75});
  check_tensor(arange(1, 0, -0.5, here(DType::f64)), DType::f64, {2}, {1, 0.5});
  check_tensor(arange(3, here(DType::bf16)), DType::bf16, {3}, {0, 1, 2});
  CHECK(arange(1, 1.3, 0.1).size() == 4);  // (1.3 - 1) / 0.1 rounds to more than 3, there as here
  CHECK_THROWS_WITH_AS(arange(0, 5, 0), doctest::Contains("[arange] from 0 to 5 in steps of 0 has no end"), Error);
  CHECK_THROWS_AS(arange(0, std::numeric_limits<double>::infinity(), 1), Error);
  CHECK_THROWS_WITH_AS(arange(257, {.dtype = DType::u8}), "[arange] 256 is no u8", DTypeError);
  CHECK_THROWS_AS(arange(std::int64_t{1} << 60), OutOfMemoryError);
  constexpr auto kFirst = std::numeric_limits<std::int64_t>::min();
  constexpr auto kLast = std::numeric_limits<std::int64_t>::max();
  CHECK_THROWS_AS(arange(kFirst, kLast), OutOfMemoryError);
  CHECK_THROWS_AS(arange(0, kFirst, -1), OutOfMemoryError);
  CHECK(arange(kFirst, kLast, kLast).to_vector<std::int64_t>() == std::vector<std::int64_t>{kFirst, -1, kLast - 1});
}

TEST_CASE("linspace, eye: both ends, and the diagonal") {
  check_tensor(linspace(0, 1, 5, here()), DType::f32, {5}, {0, 0.25, 0.5, 0.75, 1});
  check_tensor(linspace(3, 1, 3, here(DType::f64)), DType::f64, {3}, {3, 2, 1});
  check_tensor(linspace(2, 9, 1, here()), DType::f32, {1}, {2});
  check_tensor(linspace(2, 9, 0, here()), DType::f32, {0}, {});
  const Values tenths = linspace(0, 0.7, 8, here(DType::f64)).to_vector<double>();
  CHECK(tenths.back() == 0.7);
  CHECK_THROWS_AS(linspace(0, 1, -1), ShapeError);
  check_tensor(eye(2, here()), DType::f32, {2, 2}, {1, 0, 0, 1});
  check_tensor(eye(2, 3, here(DType::i64)), DType::i64, {2, 3}, {1, 0, 0, 0, 1, 0});
  check_tensor(eye(3, 1, here()), DType::f32, {3, 1}, {1, 0, 0});
  check_tensor(eye(0, here()), DType::f32, {0, 0}, {});
  CHECK(eye(3, {}).shape() == Shape{3, 3});
  CHECK(eye(3, 2).shape() == Shape{3, 2});
}

TEST_CASE("uniform, normal, truncated_normal: what the generator draws, as tensors") {
  Generator a(3);
  Generator b(3);
  const Tensor x = uniform({1000}, a, -1, 2, here());
  CHECK(x.to_vector<float>() == Tensor(b.uniform({1000}, DType::f32, test_device(), -1, 2)).to_vector<float>());
  CHECK(min(x).item<double>() >= -1);
  CHECK(max(x).item<double>() < 2);
  const Tensor y = normal({4}, a, 5, 0.5, {.dtype = DType::f64, .device = test_device(), .requires_grad = true});
  CHECK(y.requires_grad());
  CHECK(y.to_vector<double>() == Tensor(b.normal({4}, DType::f64, test_device(), 5, 0.5)).to_vector<double>());
  const Tensor z = truncated_normal({100}, a, 0, 1, -0.5, 0.5, here());
  CHECK(max(abs(z)).item<double>() <= 0.5);
  CHECK_THROWS_AS(uniform({2}, a, 0, 1, {.dtype = DType::i64}), DTypeError);
  CHECK(uniform({2}, a, here(DType::f64)).dtype() == DType::f64);
  CHECK(normal({2}, a, here(DType::bf16)).dtype() == DType::bf16);
  CHECK_THROWS_WITH_AS(uniform({2}, a, 0, std::numeric_limits<double>::infinity()),
                       doctest::Contains("[uniform] from 0 to inf is no finite distance"), Error);
}
