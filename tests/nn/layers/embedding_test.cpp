// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/embedding.h>

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

using namespace tutti;

namespace {

Tensor tokens(const std::vector<std::int64_t>& values) {
  return Tensor(Array::from(values, {static_cast<std::int64_t>(values.size())}, test_device()));
}

}  // namespace

TEST_CASE("Embedding: looks rows up, and shows its table as weight") {
  Generator random(1);
  Embedding table(10, 4, random, {.device = test_device()});
  CHECK(table.forward(tokens({3, 3, 9})).shape() == Shape{3, 4});
  REQUIRE(table.named_parameters().size() == 1);
  CHECK(table.named_parameters().front().first == "weight");
  CHECK_FALSE(table.weight.has_sparse_grad());
  double squares = 0;
  Embedding large(1000, 20, random, {.dtype = DType::f64, .device = test_device()});
  for (const double value : large.weight.to_vector<double>()) squares += value * value;
  CHECK(squares / 20'000 == doctest::Approx(1.0).epsilon(0.05));
}

TEST_CASE("Embedding: sparse gradients, also of a clone") {
  Generator random(1);
  const Embedding original(10, 2, random, {.sparse = true, .dtype = DType::f64, .device = test_device()});
  Embedding copy = clone(original, test_device());
  CHECK(copy.weight.has_sparse_grad());
  backward(sum(copy.forward(tokens({3, 7, 3}))));
  CHECK(copy.weight.sparse_grad().indices.to_vector<std::int64_t>() == std::vector<std::int64_t>{3, 7});
  CHECK(copy.weight.sparse_grad().rows.to_vector<double>() == std::vector<double>{2, 2, 1, 1});
  CHECK_FALSE(original.weight.sparse_grad().defined());
}

TEST_CASE("Embedding: what cannot be is refused") {
  Generator random(1);
  CHECK_THROWS_WITH_AS(Embedding(0, 4, random), doctest::Contains("rows 0"), ShapeError);
  CHECK_THROWS_WITH_AS(Embedding(4, 4, random, {.dtype = DType::i64}), doctest::Contains("i64"), DTypeError);
}
