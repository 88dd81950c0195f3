// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/hash_embedding.h>

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/nn/linear.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

using namespace tutti;

namespace {

using Ids = std::vector<std::int64_t>;
using Values = std::vector<double>;

HashEmbeddingOptions options(HashTable::Unknown unknown = HashTable::Unknown::initial) {
  return {{.seed = 3, .dtype = DType::f64, .device = test_device()}, unknown};
}

Tensor tensor_of(const Ids& ids, const Shape& shape) { return Tensor(Array::from(ids, shape, test_device())); }

/// Two features that share a table, one of its own, and a dense layer.
struct Recommender : Module {
  HashEmbedding users{2, options()};
  HashEmbedding friends = users;
  HashEmbedding items{2, options()};
  Linear output;

  explicit Recommender(Generator random = Generator(1))
      : output(2, 1, random, {.dtype = DType::f64, .device = test_device()}) {}
  void visit(MemberVisitor& v) override {
    v.module("users", users);
    v.module("friends", friends);
    v.module("items", items);
    v.module("output", output);
  }
};

void reach(HashTable& table, const Ids& ids) {
  const auto count = static_cast<std::int64_t>(ids.size());
  table.admit({Array::from(ids, {count}, table.device()),
               Array::zeros({count, table.columns()}, DType::f64, table.device()),
               {0, table.columns()},
               true},
              {});
}

}  // namespace

TEST_CASE("HashEmbedding: ids of any shape; the gradient is by id, and reading changes nothing") {
  HashEmbedding embedding(2, options());
  const Tensor rows = embedding.forward(tensor_of({-5, 8, 8, 1'000'000'007}, {2, 2}));
  CHECK(rows.shape() == Shape{2, 2, 2});
  backward(sum(rows * Tensor(Array::from(Values{1, 2, 3, 4}, {2, 2, 1}, test_device()))));
  const SparseGradient gradient = embedding.weight.sparse_grad();
  CHECK(gradient.indices.to_vector<std::int64_t>() == Ids{-5, 8, 1'000'000'007});
  CHECK(gradient.rows.to_vector<double>() == Values{1, 1, 5, 5, 4, 4});
  CHECK(embedding.table()->size() == 0);
  CHECK_THROWS_AS(embedding.forward(Tensor(Array::zeros({1}, DType::i32, test_device()))), DTypeError);
  const Tensor loss = sum(embedding.forward(tensor_of({1}, {1})));
  const Tensor inputs[] = {embedding.weight};
  CHECK_THROWS_AS(grad(loss, inputs), AutodiffError);
}

TEST_CASE("HashEmbedding: gradients of several backwards, between which the table has grown") {
  HashEmbedding embedding(2, {{.capacity = 1, .dtype = DType::f64, .device = test_device()}});
  const Tensor early = sum(embedding.forward(tensor_of({1, 2}, {2})));
  backward(early);
  reach(*embedding.table(), {5, 6, 7, 8, 9});
  backward(sum(embedding.forward(tensor_of({2, 9}, {2}))));
  CHECK(embedding.weight.sparse_grad().indices.to_vector<std::int64_t>() == Ids{1, 2, 9});
  CHECK(embedding.weight.sparse_grad().rows.to_vector<double>() == Values{1, 1, 2, 2, 1, 1});
}

TEST_CASE("HashEmbedding: in evaluation unknown ids read as zeros where asked") {
  HashEmbedding embedding(2, options(HashTable::Unknown::zeros));
  reach(*embedding.table(), {4});
  const Tensor ids = tensor_of({4, 5}, {2});
  const Values training = embedding.forward(ids).to_vector<double>();
  embedding.eval();
  const Values evaluation = embedding.forward(ids).to_vector<double>();
  CHECK(evaluation == Values{training[0], training[1], 0, 0});
  CHECK(training[2] != 0);
}

TEST_CASE("HashEmbedding: copies share the table, a clone has its own, from the moment it is made") {
  Recommender model;
  Recommender cloned = clone(model, test_device(1));
  reach(*model.users.table(), {1, 2});
  CHECK(model.friends.table()->size() == 2);
  CHECK(model.items.table()->size() == 0);
  CHECK(cloned.users.table()->size() == 0);
  CHECK(cloned.users.table() == cloned.friends.table());
  CHECK(cloned.users.table() != cloned.items.table());
  CHECK(cloned.users.table()->device() == test_device(1));
  const Recommender again = clone(model, test_device());
  reach(*model.users.table(), {3});
  CHECK(again.friends.table()->size() == 2);
  CHECK(again.users.forward(tensor_of({1}, {1})).to_vector<double>() ==
        model.users.forward(tensor_of({1}, {1})).to_vector<double>());
  model.detach_members_as(DType::f32);
  CHECK(model.users.table()->rows().dtype() == DType::f32);
  CHECK(model.friends.table()->size() == 3);
}

TEST_CASE("sparse_parameters, dense_parameters: each parameter is in one of them, shared tables once") {
  Recommender model;
  const NamedTables tables = sparse_parameters(model);
  REQUIRE(tables.size() == 2);
  CHECK(tables[0].first == "users");
  CHECK(tables[1].first == "items");
  CHECK(tables[0].second == model.friends.table());
  CHECK(dense_parameters(model).size() == 2);
  CHECK(model.parameters().size() == 4);
  HashEmbedding alone(3, options());
  CHECK(sparse_parameters(alone).at(0).first.empty());
}

TEST_CASE("save_tables, load_tables: by name; what belongs to no table is refused") {
  Recommender model;
  reach(*model.users.table(), {1, 2});
  reach(*model.items.table(), {-7});
  auto saved = save_tables(model);
  Recommender other;
  load_tables(other, saved);
  CHECK(other.friends.table()->index().ids() == Ids{1, 2});
  CHECK(other.items.table()->index().ids() == Ids{-7});
  HashEmbedding alone(2, options());
  load_tables(alone, model.items.table()->save());
  CHECK(alone.table()->index().ids() == Ids{-7});
  saved.emplace_back("output.weight", saved[0].second);
  CHECK_THROWS_WITH_AS(load_tables(other, saved), doctest::Contains("\"output.weight\""), DataError);
  CHECK_THROWS_WITH_AS(load_tables(other, {}), doctest::Contains("\"users\""), DataError);
}
