// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/observer/sparse_gradient.h>

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/autodiff/leaves.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

namespace tutti {
namespace {

using Indices = std::vector<std::int64_t>;

Tensor sparse_table(const Shape& shape) {
  Tensor table = spread(shape, 1);
  table.set_sparse_grad(true);
  return table;
}

Indices indices_of(const SparseGradient& gradient) { return gradient.indices.to_vector<std::int64_t>(); }
Values rows_of(const SparseGradient& gradient) { return gradient.rows.to_vector<double>(); }

TEST_CASE("sparse_grad: the rows that were read, ascending, equal ones summed") {
  const Tensor table = sparse_table({6, 2});
  backward(sum(embedding(table, index({4, 1, 4}, {3})) * constant({1, 2, 3, 4, 5, 6}, {3, 2})));
  const SparseGradient gradient = table.sparse_grad();
  CHECK(indices_of(gradient) == Indices{1, 4});
  CHECK(rows_of(gradient) == Values{3, 4, 6, 8});
  CHECK(gradient.shape == Shape{6, 2});
  CHECK(gradient.dense().to_vector<double>() == Values{0, 0, 3, 4, 0, 0, 0, 0, 6, 8, 0, 0});
}

TEST_CASE("sparse_grad: equals the dense gradient when a table is read twice and over several backwards") {
  const Tensor sparse = sparse_table({7, 3});
  const Tensor dense = spread({7, 3}, 1);
  for (const Tensor& table : {sparse, dense})
    for (int pass = 0; pass < 3; ++pass) {
      const Tensor a = embedding(table, index({pass, 5, 5, 2}, {2, 2}));
      const Tensor b = embedding(table, index({5, pass}, {2}));
      backward(sum(square(a)) + sum(b * 0.5));
    }
  const auto expected = dense.grad().to_vector<double>();
  const auto got = sparse.sparse_grad().dense().to_vector<double>();
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-14));
}

TEST_CASE("sparse_grad: reading it between two backwards changes no bit of the sum") {
  const auto accumulate = [](bool read) {
    const Tensor table = sparse_table({3, 1});
    for (const double factor : {0.1, 0.7, 1e10, -1e10, 0.3}) {
      backward(sum(embedding(table, index({1, 1, 2}, {3})) * factor));
      if (read) (void)table.sparse_grad();
    }
    return rows_of(table.sparse_grad());
  };
  CHECK(accumulate(true) == accumulate(false));
}

TEST_CASE("sparse_grad: what was read stays when more is accumulated, and a reused index does no harm") {
  const Tensor table = sparse_table({4, 1});
  Array batch = index({1, 2}, {2}).array();
  backward(sum(embedding(table, Tensor(batch))));
  const SparseGradient first = table.sparse_grad();
  batch.copy_from(index({3, 3}, {2}).array());
  backward(sum(embedding(table, Tensor(batch))));
  batch.fill(0);
  CHECK(indices_of(first) == Indices{1, 2});
  CHECK(indices_of(table.sparse_grad()) == Indices{1, 2, 3});
  CHECK(rows_of(table.sparse_grad()) == Values{1, 1, 2});
}

TEST_CASE("sparse_grad: a root's gradient may be overwritten after backward") {
  const Tensor table = sparse_table({4, 1});
  Array given = constant({2, 3}, {2, 1}).array();
  backward(embedding(table, index({1, 2}, {2})), {.gradient = Tensor(given)});
  given.fill(0);
  CHECK(rows_of(table.sparse_grad()) == Values{2, 3});
}

TEST_CASE("sparse_grad: none, empty, zeroed") {
  Tensor table = sparse_table({4, 2});
  CHECK_FALSE(table.sparse_grad().defined());
  backward(sum(embedding(table, index({}, {0}))));
  CHECK(table.sparse_grad().count() == 0);
  CHECK(table.sparse_grad().rows.shape() == Shape{0, 2});
  CHECK(table.sparse_grad().dense().to_vector<double>() == Values(8, 0.0));
  table.zero_grad();
  CHECK_FALSE(table.sparse_grad().defined());
  backward(sum(embedding(table, index({3}, {1}))));
  CHECK(indices_of(table.sparse_grad()) == Indices{3});
}

TEST_CASE("sparse_grad: the weight of a backward outside a group is taken back") {
  const Tensor table = sparse_table({4, 1});
  backward(sum(embedding(table, index({1}, {1}))), {.weight = 4.0});
  CHECK(rows_of(table.sparse_grad()) == Values{1});
  CHECK_NOTHROW(backward(sum(embedding(table, index({1}, {1}))), {.weight = 0.0}));
  CHECK(rows_of(table.sparse_grad()) == Values{1});
}

TEST_CASE("sparse_grad: each kind of gradient has its reader") {
  const Tensor table = sparse_table({4, 1});
  CHECK_THROWS_WITH_AS(table.grad(), doctest::Contains("sparse_grad()"), AutodiffError);
  CHECK_THROWS_WITH_AS(leaf({1, 2}).sparse_grad(), doctest::Contains("grad()"), AutodiffError);
  backward(sum(embedding(table, index({1}, {1}))));
  Tensor same = table;
  CHECK_THROWS_WITH_AS(same.set_sparse_grad(false), doctest::Contains("zero_grad"), AutodiffError);
  CHECK_THROWS_WITH_AS(leaf({1}, {}).set_sparse_grad(true), doctest::Contains("scalar"), AutodiffError);
}

TEST_CASE("sparse_grad: a dense contribution is refused before anything is accumulated, naming both operations") {
  const Tensor table = sparse_table({4, 2});
  const Tensor other = leaf({1});
  const Tensor tied = sum(linear(embedding(table, index({1, 2}, {2})), table)) + sum(other);
  for (const char* part : {"linear", "embedding", "set_sparse_grad(false)"})
    CHECK_THROWS_WITH_AS(backward(tied, {.retain_graph = true}), doctest::Contains(part), AutodiffError);
  CHECK_FALSE(table.sparse_grad().defined());
  CHECK_FALSE(other.grad().defined());
  CHECK_THROWS_WITH_AS(backward(sum(embedding(table * 2, index({1}, {1})))), doctest::Contains("multiply"),
                       AutodiffError);
  CHECK_THROWS_WITH_AS(backward(table, {.gradient = table.detach()}), doctest::Contains("root"), AutodiffError);
}

TEST_CASE("sparse_grad: grad() is dense and can be differentiated") {
  const Tensor table = sparse_table({3, 1});
  const std::vector<Tensor> inputs{table};
  const Tensor first = grad(sum(square(embedding(table, index({2, 2}, {2})))), inputs, {.create_graph = true}).front();
  CHECK(first.shape() == table.shape());
  CHECK(grad(sum(first), inputs).front().to_vector<double>() == Values{0, 0, 4});
  CHECK_FALSE(table.sparse_grad().defined());
}

TEST_CASE("sparse_grad: never takes the table's memory") {
  constexpr std::int64_t kRows = 200'000;
  constexpr std::int64_t kColumns = 16;
  Tensor table(Array::zeros({kRows, kColumns}, DType::f32, test_device()), true);
  table.set_sparse_grad(true);
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < 1000; ++i) values.push_back(i * 7919 % kRows);
  const Tensor indices = index(values, {1000});
  synchronize(test_device());
  memory_pool(test_device()).reset_peak();
  const std::size_t before = memory_pool(test_device()).statistics().in_use;
  for (int i = 0; i < 3; ++i) backward(sum(square(embedding(table, indices))));
  CHECK(table.sparse_grad().count() == 1000);
  CHECK(memory_pool(test_device()).statistics().peak_in_use - before < table.array().bytes() / 4);
}

TEST_CASE("coalesce: of nothing is an error") { CHECK_THROWS_AS(coalesce({}), Error); }

}  // namespace
}  // namespace tutti
