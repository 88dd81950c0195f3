// SPDX-License-Identifier: Apache-2.0
// Tables that grow, on several devices: ids that devices meet first in the same step, in any order of arrival.
#include <tutti/distributed/gradient_sync.h>
#include <tutti/distributed/sync_server.h>

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/nn/hash_embedding.h>
#include <tutti/optim/sgd.h>
#include <tutti/optim/sparse_optimizer.h>
#include <tutti/tests/distributed/device_threads.h>

#include <doctest/doctest.h>

#include <memory>
#include <stdexcept>

using namespace tutti;
using namespace tutti::testing;

namespace {

using Ids = std::vector<std::int64_t>;
using Values = std::vector<double>;

constexpr int kSteps = 10;
constexpr std::int64_t kBatch = 8;  // clicks of all devices
constexpr std::int64_t kPrime = 1'000'000'007;

struct Clicks : Module {
  HashEmbedding users;
  Tensor factor;

  explicit Clicks(double deviation = 0.01, const IdIndexOptions& index = {})
      : users(2, {{.seed = 3,
                   .deviation = deviation,
                   .capacity = 1,
                   .index = index,
                   .dtype = DType::f64,
                   .device = test_device()}}),
        factor(Array::from(Values{0.5, 2}, {2}, test_device()), true) {}
  void visit(MemberVisitor& v) override {
    v.module("users", users);
    v.parameter("factor", factor);
  }

  Tensor rows(const Ids& ids) const {
    const auto count = static_cast<std::int64_t>(ids.size());
    return users.forward(Tensor(Array::from(ids, {count}, factor.device())));
  }
};

// Some ids are old, some are new on one device, some on several, and some again within a device.
Ids ids_of(int step, std::int64_t begin, std::int64_t end) {
  Ids ids;
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t id = i % 4 == 3 ? 100 + step : (i * 3 + step * step) % 11 + step / 3;
    ids.push_back((id % 2 == 0 ? 1 : -1) * id * kPrime);
  }
  return ids;
}

using LossOf = Tensor (*)(const Clicks&, const Ids&);
// Of sums that are exact in f64, whatever their order.
Tensor exact_loss(const Clicks& model, const Ids& ids) {
  const Tensor scales(Array::from(Values{1, 4}, {2}, model.factor.device()));
  return sum(model.rows(ids) * scales) * (1.0 / static_cast<double>(ids.size()));
}
Tensor curved_loss(const Clicks& model, const Ids& ids) {
  return sum(square(model.rows(ids) * model.factor + 1.0)) * (1.0 / static_cast<double>(ids.size()));
}

/// Every id's row number and values, and what is dense.
struct Contents {
  Ids ids;
  Ids rows;
  Values values;

  explicit Contents(Clicks& model) {
    const HashTable& table = *model.users.table();
    ids = table.index().ids();
    for (const std::int64_t id : ids) rows.push_back(table.index().find(id)->row);
    values = table.lookup(ids).to_vector<double>();
    for (const double value : model.factor.to_vector<double>()) values.push_back(value);
  }
  bool operator==(const Contents&) const = default;
};

Contents train_alone(Clicks model, LossOf loss) {
  SparseAdagrad sparse(sparse_parameters(model), 0.5, {.initial_accumulator_value = 0.25});
  Sgd dense(dense_parameters(model), 0.125);
  for (int i = 0; i < kSteps; ++i) {
    sparse.zero_grad();
    dense.zero_grad();
    backward(loss(model, ids_of(i, 0, kBatch)));
    sparse.step();
    dense.step();
  }
  return Contents(model);
}

std::vector<Contents> train_devices(std::size_t count, const Clicks& model, LossOf loss,
                                    const SyncOptions& options = {}) {
  GradientSync sync(test_devices(count), options);
  std::vector<Clicks> replicas = sync.replicate(model);
  const auto share = kBatch / static_cast<std::int64_t>(count);
  run_devices(count, [&](std::size_t d) {
    const Device device = test_device(d);
    SparseAdagrad sparse(sparse_parameters(replicas[d]), 0.5, {.initial_accumulator_value = 0.25});
    Sgd dense(dense_parameters(replicas[d]), 0.125);
    const bool in_backward = options.overlap == Overlap::in_backward;
    if (in_backward) {
      sync.attach(device, sparse);
      sync.attach(device, dense);
    }
    for (int i = 0; i < kSteps; ++i) {
      sparse.zero_grad();
      dense.zero_grad();
      Step step = sync.step(device, static_cast<double>(share));
      const auto begin = static_cast<std::int64_t>(d) * share;
      step.backward(loss(replicas[d], ids_of(i, begin, begin + share)));
      if (in_backward) continue;
      sparse.step();
      dense.step();
    }
    if (sync.flush(device)) {
      sparse.step();
      dense.step();
    }
    sync.leave(device);
  });
  std::vector<Contents> contents;
  for (Clicks& replica : replicas) contents.emplace_back(replica);
  return contents;
}

}  // namespace

TEST_CASE("hash_tables: several devices have one device's table, bit for bit where sums are exact") {
  const Contents alone = train_alone(clone(Clicks(0.0), test_device()), exact_loss);
  CHECK(alone.ids.size() > 20);
  for (const std::size_t count : {1U, 2U, 4U}) {
    CAPTURE(count);
    for (const Contents& contents : train_devices(count, Clicks(0.0), exact_loss)) CHECK((contents == alone));
  }
}

TEST_CASE("hash_tables: replicas are bitwise equal, and near one device's table") {
  const Contents alone = train_alone(clone(Clicks(), test_device()), curved_loss);
  for (const std::size_t count : {2U, 4U}) {
    CAPTURE(count);
    const std::vector<Contents> devices = train_devices(count, Clicks(), curved_loss);
    for (const Contents& contents : devices) CHECK((contents == devices.front()));
    CHECK(devices.front().ids == alone.ids);
    CHECK(devices.front().rows == alone.rows);
    REQUIRE(devices.front().values.size() == alone.values.size());
    for (std::size_t i = 0; i < alone.values.size(); ++i)
      CHECK(devices.front().values[i] == doctest::Approx(alone.values[i]).epsilon(1e-11));
  }
}

TEST_CASE("hash_tables: updates during backward, and a step late") {
  const Contents expected = train_devices(2, Clicks(), curved_loss).front();
  for (const Contents& contents : train_devices(2, Clicks(), curved_loss, {.overlap = Overlap::in_backward}))
    CHECK((contents == expected));
  const std::vector<Contents> late = train_devices(2, Clicks(), curved_loss, {.overlap = Overlap::double_buffered});
  CHECK((late[0] == late[1]));
  CHECK(late[0].ids == expected.ids);
  CHECK_FALSE((late[0] == expected));
}

TEST_CASE("hash_tables: admission and eviction are the same on all devices") {
  for (const IdIndexOptions& index :
       {IdIndexOptions{.min_count = 2}, IdIndexOptions{.max_rows = 9},
        IdIndexOptions{.max_rows = 9, .eviction = Eviction::least_frequent}, IdIndexOptions{.max_idle = 2}}) {
    const Contents alone = train_alone(clone(Clicks(0.0, index), test_device()), exact_loss);
    CHECK(alone.ids.size() < 20);
    for (const Contents& contents : train_devices(4, Clicks(0.0, index), exact_loss)) CHECK((contents == alone));
  }
}

namespace {

/// Two devices whose optimizers are attached, so that all of their state travels.
struct Pair {
  explicit Pair(const SyncOptions& options = {}) : sync(test_devices(2), options), replicas(sync.replicate(Clicks())) {
    for (std::size_t d = 0; d < 2; ++d) {
      sparse.push_back(std::make_unique<SparseAdagrad>(sparse_parameters(replicas[d]), 0.5));
      dense.push_back(std::make_unique<Sgd>(dense_parameters(replicas[d]), 0.125));
      sync.attach(test_device(d), *sparse[d]);
      sync.attach(test_device(d), *dense[d]);
    }
  }
  /// Device 1 fails behind the given step, before it updates.
  void train(std::size_t d, int begin, int end, int fails = -1) {
    for (int i = begin; i < end; ++i) {
      sparse[d]->zero_grad();
      dense[d]->zero_grad();
      Step step = sync.step(test_device(d));
      const std::int64_t first = static_cast<std::int64_t>(d) * kBatch;
      step.backward(curved_loss(replicas[d], ids_of(i, first, first + kBatch)));
      if (d == 1 && i == fails) throw std::runtime_error("burnt between join and step");
      if (sync.server().options().overlap == Overlap::in_backward) continue;
      sparse[d]->step();
      dense[d]->step();
    }
  }

  GradientSync sync;
  std::vector<Clicks> replicas;
  std::vector<std::unique_ptr<SparseAdagrad>> sparse;
  std::vector<std::unique_ptr<Sgd>> dense;
};

}  // namespace

TEST_CASE("hash_tables: a device that rejoins gets the tables of the one ahead, and trains on with them") {
  Pair whole;
  run_devices(2, [&](std::size_t d) { whole.train(d, 0, 6); });
  Pair pair;
  (void)errors_of_devices(2, [&](std::size_t d) { pair.train(d, 0, 6, 3); });
  REQUIRE(pair.sparse[0]->steps() == 4);
  REQUIRE(pair.sparse[1]->steps() == 3);
  run_devices(2, [&](std::size_t d) {
    pair.sync.rejoin(test_device(d), pair.sparse[d]->steps());
    pair.sync.check_consistency(test_device(d));
    pair.train(d, 4, 6);
    pair.sync.check_consistency(test_device(d));
  });
  for (Clicks& replica : pair.replicas) CHECK((Contents(replica) == Contents(whole.replicas[0])));
}

TEST_CASE("hash_tables: after a step that failed amid its updates all devices have one device's tables") {
  Pair pair({.overlap = Overlap::in_backward});
  (void)errors_of_devices(2, [&](std::size_t d) { pair.train(d, 0, 6, 3); });
  HashTable& table = *pair.replicas[1].users.table();
  table.erase(Ids{table.index().ids().front()});  // as an update that only some had made would leave it
  run_devices(2, [&](std::size_t d) {
    pair.sync.rejoin(test_device(d), 3);
    pair.sync.check_consistency(test_device(d));
    pair.train(d, 4, 6);
  });
  CHECK((Contents(pair.replicas[0]) == Contents(pair.replicas[1])));
}

TEST_CASE("hash_tables: tables that differ are found, by ids, rows or counts, and named with the devices") {
  for (const bool erased : {true, false}) {
    Pair pair;
    run_devices(2, [&](std::size_t d) { pair.train(d, 0, 2); });
    pair.sync.check_consistency(pair.sync.devices());
    HashTable& table = *pair.replicas[1].users.table();
    if (erased)
      table.erase(Ids{table.index().ids().front()});
    else
      Array(table.rows()).fill(0.25);
    const char* const text = as_tested("hash table \"users\" on cpu:0 (digest");
    CHECK_THROWS_WITH_AS(pair.sync.check_consistency(pair.sync.devices()), doctest::Contains(text), SyncError);
  }
}

TEST_CASE("hash_tables: micro-batches, and a device without data, count as they do for plain parameters") {
  GradientSync sync(test_devices(2));
  const Clicks model(0.0);
  std::vector<Clicks> replicas = sync.replicate(model);
  run_devices(2, [&](std::size_t d) {
    SparseSgd sparse(sparse_parameters(replicas[d]), 1.0);
    Step step = sync.step(test_device(d), d == 0 ? 2.0 : 0.0);
    if (d == 0) {
      {
        NoSync quiet = step.no_sync(2.0);
        backward(sum(replicas[0].rows({7})));
      }
      step.backward(sum(replicas[0].rows({7, -7})));
    } else {
      step.synchronize();
    }
    sparse.step();
    sync.leave(test_device(d));
  });
  for (Clicks& replica : replicas) {
    CHECK(replica.users.table()->index().ids() == Ids{-7, 7});
    CHECK(replica.users.table()->lookup(Ids{-7, 7}).to_vector<double>() == Values{-0.5, -0.5, -1, -1});
  }
}
