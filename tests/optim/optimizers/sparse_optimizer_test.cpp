// SPDX-License-Identifier: Apache-2.0
#include <tutti/optim/sparse_optimizer.h>

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <functional>

using namespace tutti;

namespace {

using Ids = std::vector<std::int64_t>;
using Values = std::vector<double>;

std::shared_ptr<HashTable> make_table(const IdIndexOptions& index = {}) {
  return std::make_shared<HashTable>(
      2, HashTableOptions{.seed = 5, .capacity = 2, .index = index, .dtype = DType::f64, .device = test_device()});
}

/// The gradient that a backward would leave.
void give(const Tensor& weight, const Ids& ids, const Values& rows) {
  const auto count = static_cast<std::int64_t>(ids.size());
  GradientSlot& slot = weight.gradient_slot();
  slot.rows = {
      {Array::from(ids, {count}, test_device()), Array::from(rows, {count, 2}, test_device()), weight.shape(), false}};
  slot.state = GradientState::accumulated;
}

const std::vector<Ids> kSteps = {{3, 1}, {2}, {1, 1, 6, 0}, {5, 3}, {4, 0, 2}};

Values gradient_of(const Ids& ids, std::size_t step) {
  Values rows;
  for (const std::int64_t id : ids)
    for (int column = 0; column < 2; ++column)
      rows.push_back(0.1 * static_cast<double>(id + 1) - 0.3 * static_cast<double>(step) + column);
  return rows;
}

using MakeSparse = std::function<std::unique_ptr<Optimizer>(const NamedTables&)>;
using MakeDense = std::function<std::unique_ptr<Optimizer>(const std::vector<Tensor>&)>;

/// A table that has all ids from the start, stepped lazily by the optimizer of plain parameters.
Values expected_of(const MakeDense& make, const Ids& ids) {
  Tensor weight(make_table()->lookup(ids), true);
  weight.set_sparse_grad(true);
  const auto optimizer = make({weight});
  for (std::size_t step = 0; step < kSteps.size(); ++step) {
    give(weight, kSteps[step], gradient_of(kSteps[step], step));
    optimizer->step();
    optimizer->zero_grad();
  }
  return weight.to_vector<double>();
}

}  // namespace

TEST_CASE("sparse optimizers: bitwise what the lazy steps of a plain table give, while the table grows") {
  const Ids ids{0, 1, 2, 3, 4, 5, 6};
  struct Pair {
    const char* name;
    MakeSparse sparse;
    MakeDense dense;
  };
  const AdamWOptions adamw{.weight_decay = 0.0};
  const AdagradOptions adagrad{.learning_rate_decay = 0.1, .initial_accumulator_value = 0.25};
  const Pair pairs[] = {
      {"SGD", [](const NamedTables& t) { return std::make_unique<SparseSgd>(t, 0.1); },
       [](const std::vector<Tensor>& p) { return std::make_unique<Sgd>(p, 0.1); }},
      {"Adagrad", [&](const NamedTables& t) { return std::make_unique<SparseAdagrad>(t, 0.1, adagrad); },
       [&](const std::vector<Tensor>& p) { return std::make_unique<Adagrad>(p, 0.1, adagrad); }},
      {"AdamW", [&](const NamedTables& t) { return std::make_unique<SparseAdamW>(t, 0.1, adamw); },
       [&](const std::vector<Tensor>& p) { return std::make_unique<AdamW>(p, 0.1, adamw); }},
  };
  for (const Pair& pair : pairs) {
    CAPTURE(pair.name);
    const auto table = make_table();
    const auto optimizer = pair.sparse({{"users", table}});
    for (std::size_t step = 0; step < kSteps.size(); ++step) {
      give(table->weight(), kSteps[step], gradient_of(kSteps[step], step));
      optimizer->step();
      optimizer->zero_grad();
    }
    CHECK(table->size() == 7);
    CHECK(table->capacity() == 8);
    CHECK(table->lookup(ids).to_vector<double>() == expected_of(pair.dense, ids));
    CHECK(optimizer->steps() == 5);
  }
}

TEST_CASE("sparse optimizers: an evicted row begins anew, its state too") {
  const auto table = make_table({.max_rows = 1});
  SparseAdagrad optimizer({{"users", table}}, 0.1);
  const Values first = table->lookup(Ids{1}).to_vector<double>();
  const auto step = [&](std::int64_t id) {
    give(table->weight(), {id}, {1, 1});
    optimizer.step();
    return table->lookup(Ids{id}).to_vector<double>();
  };
  const Values once = step(1);
  CHECK(step(1) != once);
  step(2);
  CHECK(table->lookup(Ids{1}).to_vector<double>() == first);
  CHECK(step(1) == once);
}

TEST_CASE("SparseAdamW: decay reaches the rows that a step changes, then only") {
  const auto table = make_table();
  SparseAdamW optimizer({{"users", table}}, 0.5, {.weight_decay = 0.5});
  give(table->weight(), {1, 2}, {0, 0, 0, 0});
  const Values before = table->lookup(Ids{1, 2}).to_vector<double>();
  optimizer.step();
  give(table->weight(), {2}, {0, 0});
  optimizer.step();
  const Values after = table->lookup(Ids{1, 2}).to_vector<double>();
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(after[i] == doctest::Approx(before[i] * (i < 2 ? 0.75 : 0.75 * 0.75)).epsilon(1e-12));
}

TEST_CASE(
    "sparse optimizers: saved and restored in the middle, into a table of another size, training goes on the same") {
  const auto table = make_table();
  SparseAdamW optimizer({{"users", table}}, 0.1);
  for (std::size_t step = 0; step < 3; ++step) {
    give(table->weight(), kSteps[step], gradient_of(kSteps[step], step));
    optimizer.step();
  }
  const auto restored = std::make_shared<HashTable>(
      2, HashTableOptions{.seed = 5, .capacity = 64, .dtype = DType::f64, .device = test_device()});
  restored->load(table->save());
  SparseAdamW resumed({{"users", restored}}, 0.1);
  resumed.load_state(optimizer.state());
  for (std::size_t step = 3; step < kSteps.size(); ++step)
    for (Optimizer* each : {static_cast<Optimizer*>(&optimizer), static_cast<Optimizer*>(&resumed)}) {
      const HashTable& its = each == &optimizer ? *table : *restored;
      give(its.weight(), kSteps[step], gradient_of(kSteps[step], step));
      each->step();
    }
  const Ids ids{0, 1, 2, 3, 4, 5, 6};
  CHECK(restored->lookup(ids).to_vector<double>() == table->lookup(ids).to_vector<double>());
  CHECK(resumed.steps() == 5);
}

TEST_CASE("sparse optimizers: a table that moved without the optimizer is refused") {
  const auto table = make_table();
  SparseSgd optimizer({{"users", table}}, 0.1);
  give(table->weight(), {1}, {1, 1});
  optimizer.step();
  table->load(make_table()->save());
  give(table->weight(), {1}, {1, 1});
  CHECK_THROWS_WITH_AS(optimizer.step(), doctest::Contains("\"users\""), Error);
  CHECK(optimizer.torn());
  CHECK_THROWS_AS(SparseSgd({}, 0.1), Error);
  CHECK_THROWS_WITH_AS(SparseAdagrad({{"users", table}}, 0.1, {.epsilon = 0}), doctest::Contains("epsilon"), Error);
  CHECK_THROWS_WITH_AS(SparseAdamW({{"users", table}}, 0.1, {.beta1 = 1}), doctest::Contains("beta1"), Error);
}

TEST_CASE("sparse optimizers: an optimizer for plain parameters refuses a table") {
  const auto table = make_table();
  give(table->weight(), {1}, {1, 1});
  Sgd sgd({table->weight()}, 0.1);
  CHECK_THROWS_WITH_AS(sgd.step(), doctest::Contains("sparse_parameters"), Error);
  AdamW adamw({table->weight()}, 0.1, {.weight_decay = 0.0});
  CHECK_THROWS_WITH_AS(adamw.step(), doctest::Contains("sparse_parameters"), Error);
}
