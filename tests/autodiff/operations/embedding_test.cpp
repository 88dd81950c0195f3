// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>

#include <doctest/doctest.h>

namespace tutti {
namespace {

using Inputs = std::vector<Tensor>;

TEST_CASE("embedding: rows by number, with repeated and unused ones, for indices and tables of any rank") {
  const Tensor table = spread({4, 3}, 1);
  const Tensor indices = index({2, 0, 2, 3, 2, 0}, {2, 3});
  const Tensor rows = embedding(table, indices);
  CHECK(rows.shape() == Shape{2, 3, 3});
  const auto all = table.to_vector<double>();
  CHECK(rows.to_vector<double>()[9] == all[9]);
  CHECK(rows.to_vector<double>()[1] == all[7]);
  check_gradients([&](const Inputs& in) { return square(embedding(in[0], indices)); }, {table});
  check_gradients([&](const Inputs& in) { return embedding(in[0], index({1, 1}, {2})); }, {spread({2, 2, 2}, 2)});
  check_gradients([&](const Inputs& in) { return embedding(in[0], index({1}, {})); }, {spread({3}, 3)});
  CHECK(embedding(table, index({}, {0, 2})).shape() == Shape{0, 2, 3});
  for (const DType narrow : {DType::i32, DType::u8})
    CHECK(embedding(table, cast(indices, narrow)).to_vector<double>() == rows.to_vector<double>());
}

TEST_CASE("embedding: what does not fit is named") {
  const Tensor table = spread({4, 3}, 1);
  CHECK_THROWS_WITH_AS(embedding(table, constant({1}, {1})), doctest::Contains("f64"), DTypeError);
  CHECK_THROWS_WITH_AS(embedding(leaf({1}, {}), index({0}, {1})), doctest::Contains("scalar"), ShapeError);
  CHECK_THROWS_WITH(embedding(table, index({4}, {1})).to_vector<double>(), doctest::Contains("4"));
}

}  // namespace
}  // namespace tutti
