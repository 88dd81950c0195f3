// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/tables/hash_table.h>

#include <tutti/backend/error.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

using namespace tutti;

namespace {

using Ids = std::vector<std::int64_t>;
using Values = std::vector<double>;

constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();

HashTableOptions small(const IdIndexOptions& index = {}) {
  return {.seed = 7, .capacity = 2, .index = index, .dtype = DType::f64, .device = test_device()};
}

SparseGradient rows_of_ones(const Ids& ids, std::int64_t columns = 2) {
  const auto count = static_cast<std::int64_t>(ids.size());
  return {Array::from(ids, {count}, test_device()),
          Array::full({count, columns}, 1, DType::f64, test_device()),
          {0, columns},
          true};
}

Values values_of(const HashTable& table, const Ids& ids) { return table.lookup(ids).to_vector<double>(); }

Ids ids_of(const IdIndex& index) { return index.ids(); }

}  // namespace

TEST_CASE("hash_table: an id's first values are a function of seed and id, whoever asks and when") {
  const HashTable table(5, small());
  HashTable other(5, {.seed = 7, .capacity = 100, .dtype = DType::f64, .device = test_device()});
  other.admit(rows_of_ones({-4, 12, kLowest}, 5), {});
  const Values before = values_of(table, {12, kLowest, 12, 99});
  CHECK(before == values_of(other, {12, kLowest, 12, 99}));
  CHECK(std::equal(before.begin(), before.begin() + 5, before.begin() + 10));
  CHECK_FALSE(std::equal(before.begin(), before.begin() + 5, before.begin() + 5));
  CHECK(table.size() == 0);
  CHECK(other.size() == 3);
  CHECK(table.lookup(Ids{}).shape() == Shape{0, 5});
  CHECK(values_of(HashTable(5, {.seed = 8, .dtype = DType::f64, .device = test_device()}), {12}) !=
        values_of(table, {12}));
  CHECK(other.lookup(Ids{5}, HashTable::Unknown::zeros).to_vector<double>() == Values(5));
  // Normal, of the deviation asked for.
  Ids many(2000);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = static_cast<std::int64_t>(i) * 1'000'003;
  double squares = 0;
  for (const double value : values_of(table, many)) squares += value * value;
  CHECK(squares / 10'000 == doctest::Approx(1e-4).epsilon(0.05));
}

TEST_CASE("hash_table: grows by doubling; rows and their state stay what they were") {
  HashTable table(2, small());
  const RowState state{{"sum"}, 0.5};
  table.admit(rows_of_ones({3, 1}), state);
  table.rows().slice(0, 0, 1).fill(10);  // the row of id 1
  table.state()[0].second.slice(0, 0, 1).fill(20);
  const Values third = values_of(table, {3});
  CHECK(table.capacity() == 2);
  const SparseGradient gradient = table.admit(rows_of_ones({-9, 1, 2, 3, 70}), state);
  CHECK(table.capacity() == 8);
  CHECK(table.size() == 5);
  CHECK(gradient.shape == Shape{8, 2});
  CHECK(gradient.indices.to_vector<std::int64_t>() == Ids{2, 0, 3, 1, 4});
  CHECK(values_of(table, {1}) == Values{10, 10});
  CHECK(values_of(table, {3}) == third);
  CHECK(table.state()[0].second.to_vector<double>() ==
        Values{20, 20, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0, 0, 0, 0, 0, 0});
  CHECK(table.index().find(1)->count == 2);
  CHECK(table.index().find(70)->last == 2);
}

TEST_CASE("hash_table: ids are admitted once they have been reached often enough") {
  HashTable table(2, small({.min_count = 3}));
  const Values initial = values_of(table, {5});
  for (int i = 0; i < 2; ++i) CHECK(table.admit(rows_of_ones({5, 6}), {}).count() == 0);
  CHECK(table.size() == 0);
  const SparseGradient third = table.admit(rows_of_ones({5, 7}), {});
  CHECK(third.count() == 1);
  CHECK(third.rows.shape() == Shape{1, 2});
  CHECK(ids_of(table.index()) == Ids{5});
  CHECK(table.index().ids(false) == Ids{6, 7});
  CHECK(values_of(table, {5}) == initial);
}

TEST_CASE("hash_table: a full table evicts the rows that it is told to, with their state, and never their gradient") {
  for (const bool recent : {true, false}) {
    CAPTURE(recent);
    HashTable table(2, small({.max_rows = 3, .eviction = recent ? Eviction::least_recent : Eviction::least_frequent}));
    const RowState state{{"sum"}};
    table.admit(rows_of_ones({1, 2}), state);
    table.admit(rows_of_ones({1}), state);
    table.admit(rows_of_ones({2, 3}), state);
    table.admit(rows_of_ones({2}), state);  // 1: twice, last in 2; 2: thrice, last in 4; 3: once, last in 3
    Array(table.rows()).fill(std::numeric_limits<double>::infinity());
    table.state()[0].second.fill(std::numeric_limits<double>::quiet_NaN());
    const SparseGradient gradient = table.admit(rows_of_ones({4}), state);
    CHECK(ids_of(table.index()) == (recent ? Ids{2, 3, 4} : Ids{1, 2, 4}));
    CHECK(table.capacity() == 3);
    const std::int64_t row = gradient.indices.to_vector<std::int64_t>().front();
    CHECK(values_of(table, {4}) == values_of(HashTable(2, small()), {4}));
    CHECK(table.state()[0].second.slice(0, row, row + 1).to_vector<double>() == Values{0, 0});
    CHECK_THROWS_WITH_AS(table.admit(rows_of_ones({10, 11, 12, 13}), state), doctest::Contains("4 rows"), Error);
    CHECK(table.updates() == 5);
    CHECK(table.admit(rows_of_ones({10, 11, 12}), state).count() == 3);
    CHECK(ids_of(table.index()) == Ids{10, 11, 12});
  }
}

TEST_CASE("hash_table: what no update reaches is forgotten, also what waits for a row") {
  HashTable table(2, small({.min_count = 2, .max_idle = 4}));
  table.admit(rows_of_ones({1, 2}), {});
  table.admit(rows_of_ones({1}), {});
  for (int i = 0; i < 3; ++i) table.admit(rows_of_ones({9}), {});
  CHECK(table.index().find(2) != nullptr);
  table.admit(rows_of_ones({9}), {});
  CHECK(table.index().find(2) == nullptr);
  CHECK(ids_of(table.index()) == Ids{1, 9});
  table.admit(rows_of_ones({9}), {});
  CHECK(ids_of(table.index()) == Ids{9});
  table.erase(Ids{9, 1000});
  CHECK(table.size() == 0);
  CHECK(table.index().find(9) == nullptr);
}

TEST_CASE("hash_table: is saved by id, and loads into a table of any size, device type and limit") {
  HashTable table(2, small({.min_count = 2}));
  const RowState state{{"mean", "square"}};
  for (int i = 0; i < 2; ++i) table.admit(rows_of_ones({8, -3, 5}), state);
  table.admit(rows_of_ones({8, 77}), state);
  table.rows().slice(0, 0, 1).fill(4);  // of -3
  table.state()[1].second.slice(0, 0, 1).fill(6);
  const auto saved = table.save();
  HashTable same(2, {.seed = 1, .capacity = 50, .dtype = DType::f32, .device = test_device(1)});
  same.load(saved);
  CHECK(same.capacity() == 50);
  CHECK(same.updates() == 3);
  CHECK(ids_of(same.index()) == Ids{-3, 5, 8});
  CHECK(same.index().find(8)->count == 3);
  CHECK(same.index().find(5)->last == 2);
  CHECK(same.index().find(77)->row == -1);
  CHECK(same.lookup(Ids{-3}).to_vector<float>() == std::vector<float>{4, 4});
  CHECK(same.state()[1].second.slice(0, 0, 2).to_vector<float>() == std::vector<float>{6, 6, 0, 0});
  HashTable limited(2, small({.max_rows = 1}));
  limited.load(saved);
  CHECK(ids_of(limited.index()) == Ids{8});  // the most recent
  CHECK(values_of(limited, {8}) == values_of(table, {8}));
  HashTable empty(2, small());
  empty.load(HashTable(2, small()).save());
  CHECK(empty.size() == 0);
}

TEST_CASE("hash_table: a damaged state names what is wrong, and changes nothing") {
  HashTable table(2, small());
  table.admit(rows_of_ones({1, 2}), {{"sum"}});
  const auto saved = table.save();
  const auto refused = [&](std::size_t position, Array array, const char* part) {
    auto damaged = saved;
    damaged[position].second = std::move(array);
    CHECK_THROWS_WITH_AS(table.load(damaged), doctest::Contains(part), DataError);
  };
  refused(0, Array::from(Ids{1, 1}, {2}, cpu()), "id 1 is there twice");
  refused(1, Array::from(Ids{1}, {1}, cpu()), "\"counts\" is [1], it must be [2]");
  refused(2, Array::from(Ids{1, 9}, {2}, cpu()), "last update 9 of 1");
  refused(3, Array::zeros({2, 3}, DType::f64, cpu()), "\"rows\" is [2, 3], it must be [2, 2]");
  refused(3, Array::zeros({2, 2}, DType::i64, cpu()), "\"rows\" is i64, it must be floating");
  refused(6, Array::zeros({1, 2}, DType::f64, cpu()), "\"state.sum\"");
  auto more = saved;
  more.emplace_back("colour", saved[0].second);
  CHECK_THROWS_WITH_AS(table.load(more), doctest::Contains("\"colour\""), DataError);
  auto less = saved;
  less.erase(less.begin());
  CHECK_THROWS_WITH_AS(table.load(less), doctest::Contains("\"ids\" is missing"), DataError);
  CHECK(ids_of(table.index()) == Ids{1, 2});
  CHECK(table.save().size() == saved.size());
}

TEST_CASE("hash_table: options out of range, and another optimizer's state") {
  CHECK_THROWS_WITH_AS(HashTable(0, small()), doctest::Contains("got 0"), ShapeError);
  CHECK_THROWS_WITH_AS(HashTable(2, {.dtype = DType::i64}), doctest::Contains("i64"), DTypeError);
  CHECK_THROWS_WITH_AS(HashTable(2, {.deviation = -1}), doctest::Contains("deviation"), Error);
  CHECK_THROWS_WITH_AS(HashTable(2, {.capacity = 0}), doctest::Contains("capacity"), Error);
  CHECK_THROWS_WITH_AS(HashTable(2, small({.min_count = 0})), doctest::Contains("min_count"), Error);
  CHECK_THROWS_WITH_AS(HashTable(2, small({.max_rows = -1})), doctest::Contains("max_rows"), Error);
  CHECK_THROWS_WITH_AS(HashTable(2, small({.max_idle = -1})), doctest::Contains("max_idle"), Error);
  HashTable table(2, small());
  table.admit(rows_of_ones({1}), {{"sum"}});
  CHECK_THROWS_WITH_AS(table.admit(rows_of_ones({2}), {{"mean", "square"}}), doctest::Contains("drop_state()"), Error);
  CHECK(table.size() == 1);
  table.drop_state();
  table.admit(rows_of_ones({2}), {{"mean", "square"}, 1.0});
  CHECK(table.state()[0].second.slice(0, 0, 2).to_vector<double>() == Values{1, 1, 1, 1});
}
