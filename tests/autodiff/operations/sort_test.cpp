// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>

#include <doctest/doctest.h>

namespace tutti {
namespace {

using Inputs = std::vector<Tensor>;
using Whole = std::vector<std::int64_t>;

TEST_CASE("sort, argsort: values with their places") {
  const Tensor x = leaf({3, 1, 2, 5, 5, 4}, {2, 3});
  const Sorted rows = sort(x);
  CHECK(rows.values.to_vector<double>() == Values{1, 2, 3, 4, 5, 5});
  CHECK(rows.indices.to_vector<std::int64_t>() == Whole{1, 2, 0, 2, 0, 1});
  CHECK(sort(x, 0, true).values.to_vector<double>() == Values{5, 5, 4, 3, 1, 2});
  CHECK(argsort(x, 1, true).to_vector<std::int64_t>() == Whole{0, 2, 1, 0, 1, 2});
  CHECK_FALSE(argsort(x).requires_grad());
  CHECK(sort(index({9, -9}, {2})).values.to_vector<std::int64_t>() == Whole{-9, 9});
  CHECK(sort(cast(x, DType::bf16)).values.dtype() == DType::bf16);
}

TEST_CASE("topk: the largest or smallest, in order") {
  const Tensor x = leaf({3, 1, 2, 7, 5, 4}, {2, 3});
  CHECK(topk(x, 2).values.to_vector<double>() == Values{3, 2, 7, 5});
  CHECK(topk(x, 2).indices.to_vector<std::int64_t>() == Whole{0, 2, 0, 1});
  CHECK(topk(x, 1, 0, false).values.to_vector<double>() == Values{3, 1, 2});
  CHECK(topk(x, 0).values.shape() == Shape{2, 0});
  CHECK_THROWS_WITH_AS(topk(x, 4), doctest::Contains("[topk] 4 elements of 3"), ShapeError);
}

TEST_CASE("sort, topk: first and second derivatives") {
  const Tensor x = spread({3, 4}, 1);
  for (const std::int64_t axis : {0, 1})
    for (const bool descending : {false, true}) {
      check_gradients([=](const Inputs& in) { return square(sort(in[0], axis, descending).values); }, {x});
      check_gradients([=](const Inputs& in) { return square(topk(in[0], 2, axis, descending).values); }, {x});
    }
}

TEST_CASE("sort, argsort, topk: a scalar is in order") {
  const Tensor x = leaf({3}, {});
  CHECK(argsort(x).shape() == Shape{});
  CHECK(sort(x, 0).values.item<double>() == 3);
  CHECK(topk(x, 1).indices.item<std::int64_t>() == 0);
  check_gradients([](const Inputs& in) { return square(sort(in[0]).values + topk(in[0], 1).values); }, {x});
  CHECK_THROWS_AS(sort(x, 1), ShapeError);
  CHECK_THROWS_AS(topk(x, 2), ShapeError);
}

}  // namespace
}  // namespace tutti
