// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/embedding_bag.h>

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/autodiff/leaves.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <string>

using namespace tutti;

namespace {

Tensor ids(const std::vector<std::int64_t>& values, const Shape& shape) { return index(values, shape); }

// Rows 0 to 4 of two columns: {0, 0}, {1, -10}, {2, 20}, {3, -30}, {4, 40}.
Tensor table() { return leaf({0, 0, 1, -10, 2, 20, 3, -30, 4, 40}, {5, 2}); }

Values bags_of(BagMode mode, const Tensor& indices, const Tensor& offsets = {}) {
  return embedding_bag(table(), indices, offsets, {.mode = mode}).to_vector<double>();
}

/// What is thrown at the call, or when its kernels have run.
std::string error_of(const Tensor& indices, const Tensor& offsets, const EmbeddingBagCall& call = {}) {
  try {
    embedding_bag(table(), indices, offsets, call).to_vector<double>();
    synchronize(test_device());
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

bool has(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("embedding_bag: bags between offsets are those of rows, also of no index and of i32") {
  const Tensor flat = ids({1, 2, 4, 3}, {4});
  const Tensor offsets = ids({0, 2, 2}, {3});
  CHECK(bags_of(BagMode::sum, flat, offsets) == Values{3, 10, 0, 0, 7, 10});
  CHECK(bags_of(BagMode::mean, flat, offsets) == Values{1.5, 5, 0, 0, 3.5, 5});
  CHECK(bags_of(BagMode::max, flat, offsets) == Values{2, 20, 0, 0, 4, 40});
  CHECK(bags_of(BagMode::sum, cast(flat, DType::i32), cast(offsets, DType::i32)) == Values{3, 10, 0, 0, 7, 10});
  CHECK(bags_of(BagMode::sum, flat, ids({0, 4}, {2})) == Values{10, 20, 0, 0});
  const Tensor padded = ids({1, 2, 4, 3}, {2, 2});
  CHECK(bags_of(BagMode::sum, padded) == Values{3, 10, 7, 10});
  CHECK(bags_of(BagMode::mean, padded) == Values{1.5, 5, 3.5, 5});
  CHECK(bags_of(BagMode::max, padded) == Values{2, 20, 4, 40});
  for (const BagMode mode : {BagMode::sum, BagMode::mean, BagMode::max}) {
    CHECK(bags_of(mode, ids({}, {2, 0})) == Values{0, 0, 0, 0});
    CHECK(bags_of(mode, ids({}, {0}), ids({0, 0}, {2})) == Values{0, 0, 0, 0});
    CHECK(bags_of(mode, ids({}, {0}), ids({}, {0})).empty());
    CHECK(bags_of(mode, ids({}, {0, 3})).empty());
  }
}

TEST_CASE("embedding_bag: padding counts nothing, whatever its row holds") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor poisoned = leaf({nan, nan, 1, -10, 2, -20}, {3, 2});
  const auto bags = [&](BagMode mode, const Tensor& indices, const Tensor& offsets, std::int64_t padding) {
    return embedding_bag(poisoned, indices, offsets, {.mode = mode, .padding_index = padding}).to_vector<double>();
  };
  for (const std::int64_t padding : {0, -3}) {
    const Tensor rows = ids({1, 0, 2, 0, 0, 0}, {2, 3});
    CHECK(bags(BagMode::sum, rows, {}, padding) == Values{3, -30, 0, 0});
    CHECK(bags(BagMode::mean, rows, {}, padding) == Values{1.5, -15, 0, 0});
    CHECK(bags(BagMode::max, rows, {}, padding) == Values{2, -10, 0, 0});
    const Tensor flat = ids({1, 0, 2, 0, 0, 0}, {6});
    const Tensor offsets = ids({0, 3}, {2});
    CHECK(bags(BagMode::mean, flat, offsets, padding) == Values{1.5, -15, 0, 0});
    CHECK(bags(BagMode::max, flat, offsets, padding) == Values{2, -10, 0, 0});
  }
  backward(sum(embedding_bag(poisoned, ids({1, 0, 2}, {1, 3}), {.mode = BagMode::sum, .padding_index = 0})));
  CHECK(poisoned.grad().to_vector<double>() == Values{0, 0, 1, 1, 1, 1});

  const Tensor weights = leaf({1, nan, 3});
  const Tensor weighted = embedding_bag(poisoned, ids({1, 0, 2}, {3}), ids({0}, {1}),
                                        {.mode = BagMode::sum, .per_sample_weights = weights, .padding_index = 0});
  CHECK(weighted.to_vector<double>() == Values{7, -70});
  backward(sum(weighted));
  CHECK(weights.grad().to_vector<double>() == Values{-9, 0, -18});
}

TEST_CASE("embedding_bag: first and second gradients of table and weights") {
  const Tensor indices = ids({0, 3, 3, 1, 2, 0}, {6});
  const Tensor offsets = ids({0, 1, 1, 4}, {4});
  const Tensor padded = reshape(indices, {2, 3});
  for (const BagMode mode : {BagMode::sum, BagMode::mean, BagMode::max})
    for (const bool in_rows : {true, false}) {
      const EmbeddingBagCall call{.mode = mode, .padding_index = 1};
      check_gradients(
          [&](const std::vector<Tensor>& in) {
            return in_rows ? embedding_bag(in[0], padded, call) : embedding_bag(in[0], indices, offsets, call);
          },
          {spread({4, 2}, 1)});
    }
  check_gradients(
      [&](const std::vector<Tensor>& in) {
        return embedding_bag(in[0], indices, offsets, {.mode = BagMode::sum, .per_sample_weights = in[1]});
      },
      {spread({4, 2}, 2), spread({6}, 3)});
}

TEST_CASE("embedding_bag: 16-bit rows are added in f32") {
  const Tensor small(Array::full({2, 1}, 0.0078125, DType::bf16, test_device()));  // 2^-7: lost beside 8 in bf16
  std::vector<std::int64_t> many(2048, 1);
  for (const BagMode mode : {BagMode::sum, BagMode::mean}) {
    const double expected = mode == BagMode::sum ? 16 : 0.0078125;
    const auto bags = [&](const Tensor& result) {
      CHECK(result.dtype() == DType::bf16);
      return result.cast(DType::f64).to_vector<double>();
    };
    CHECK(bags(embedding_bag(small, ids(many, {1, 2048}), {.mode = mode})) == Values{expected});
    CHECK(bags(embedding_bag(small, ids(many, {2048}), ids({0}, {1}), {.mode = mode})) == Values{expected});
  }
}

TEST_CASE("embedding_bag: what is wrong with indices and offsets is told") {
  const Tensor flat = ids({1, 2, 4, 3}, {4});
  CHECK(has(error_of(flat, ids({1, 2}, {2})), index_error("[embedding_bag] bag -1")));
  CHECK(has(error_of(flat, ids({1, 2}, {2}), {.mode = BagMode::max}), "the first offset must be 0"));
  CHECK(has(error_of(flat, ids({0, 3, 1}, {3})), index_error("[embedding_bag] a bag's length -2")));
  CHECK(has(error_of(flat, ids({0, 3, 1}, {3})), "offsets must ascend"));
  CHECK(has(error_of(flat, ids({0, 5}, {2})), index_error("[embedding_bag] offset 5")));
  CHECK(has(error_of(flat, ids({-1, 2}, {2})), index_error("[embedding_bag] offset -1")));
  CHECK(has(error_of(flat, ids({}, {0})), "[embedding_bag] 4 indices are in no bag: there are no offsets"));
  CHECK(has(error_of(ids({1, 5}, {1, 2}), {}), index_error("[embedding_bag] id 5")));
  CHECK(has(error_of(ids({1, 5}, {1, 2}), {}), "out of range for 5 rows"));
  CHECK(has(error_of(flat, {}), "[embedding_bag] needs indices [bags, length], or [n] with offsets, got [4]"));
  CHECK(has(error_of(ids({1, 2}, {1, 2}), ids({0}, {1})), "needs indices [n] with offsets [bags], got [1, 2]"));
  CHECK(has(error_of(flat, cast(ids({0}, {1}), DType::f32)), "offsets are f32: they must be integers"));
  CHECK(has(error_of(flat, ids({0}, {1}), {.padding_index = 5}), "the padding index 5 is out of range for 5 rows"));
  CHECK(has(error_of(flat, ids({0}, {1}), {.padding_index = -6}), "the padding index -6"));
  const Tensor weights = leaf({1, 2, 3, 4});
  CHECK(has(error_of(flat, ids({0}, {1}), {.mode = BagMode::mean, .per_sample_weights = weights}),
            "[embedding_bag] weights of samples are for sums"));
  CHECK(has(error_of(ids({1}, {1, 1}), {}, {.mode = BagMode::sum, .per_sample_weights = weights}),
            "weights [4] of samples do not have the shape of indices [1, 1]"));
  CHECK(has(error_of(flat, ids({0}, {1}), {.mode = BagMode::sum, .per_sample_weights = flat}), "not floating"));
  CHECK_THROWS_AS(embedding_bag(flat, flat, ids({0}, {1})), ShapeError);
  CHECK_THROWS_AS(embedding_bag(cast(table(), DType::i64), flat, ids({0}, {1})), DTypeError);
}

TEST_CASE("EmbeddingBag: the module has a table, a mode, padding and sparse gradients") {
  Generator random(1);
  EmbeddingBag layer(
      10, 2, random,
      {.mode = BagMode::sum, .padding_index = -1, .sparse = true, .dtype = DType::f64, .device = test_device()});
  REQUIRE(layer.named_parameters().size() == 1);
  CHECK(layer.named_parameters().front().first == "weight");
  const Values values = layer.weight.to_vector<double>();
  CHECK(Values(values.end() - 2, values.end()) == Values{0, 0});
  CHECK(std::ranges::count(values, 0.0) == 2);
  EmbeddingBag copy = clone(layer, test_device());
  backward(sum(copy.forward(ids({3, 7, 3, 9}, {4}), ids({0, 2}, {2}))));
  const Array dense = copy.weight.sparse_grad().dense();
  Values expected(20, 0.0);
  for (const std::size_t place : {6, 7}) expected[place] = 2;
  for (const std::size_t place : {14, 15}) expected[place] = 1;
  CHECK(dense.to_vector<double>() == expected);
  CHECK(copy.weight.sparse_grad().count() <= 4);

  EmbeddingBag mean(4, 3, random, {.dtype = DType::f64, .device = test_device()});
  const Tensor chosen = ids({0, 1, 2, 3}, {2, 2});
  CHECK(mean.forward(chosen).to_vector<double>() == embedding_bag(mean.weight, chosen).to_vector<double>());
  EmbeddingBag sums(4, 3, random, {.mode = BagMode::sum, .dtype = DType::f64, .device = test_device()});
  const Tensor weights = constant({1, 0, 0, 2}, {2, 2});
  CHECK(sums.forward(chosen, {}, weights).to_vector<double>() ==
        embedding_bag(sums.weight, chosen, {.mode = BagMode::sum, .per_sample_weights = weights}).to_vector<double>());
  CHECK_THROWS_WITH_AS(EmbeddingBag(0, 4, random), doctest::Contains("[EmbeddingBag] sizes must be positive"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(EmbeddingBag(4, 4, random, {.padding_index = 4}),
                       doctest::Contains("[EmbeddingBag] the padding index 4 is out of range for 4 rows"), ShapeError);
  CHECK_THROWS_AS(EmbeddingBag(4, 4, random, {.dtype = DType::i64}), DTypeError);
}

TEST_CASE("embedding_bag: a padding row that the indices' type does not reach is none of them") {
  const Tensor table = ones({300, 2}, {.device = test_device()});
  const Tensor small = ids({1, 2}, {1, 2}).cast(DType::u8);
  CHECK(embedding_bag(table, small, {.mode = BagMode::sum, .padding_index = -1}).to_vector<float>() ==
        std::vector<float>{2, 2});
}
