// SPDX-License-Identifier: Apache-2.0
// Sparse gradients follow the rules of dense ones: the same sums, the same receivers, never the table's memory.
#include <tutti/distributed/gradient_sync.h>
#include <tutti/distributed/sync_server.h>

#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/optim/clip.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/word_model.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr int kSteps = 12;
constexpr std::int64_t kBatch = 6;  // words per device

Indices batch_of(int step, std::int64_t begin, std::int64_t end) {
  Indices words;
  for (std::int64_t i = begin; i < end; ++i) words.push_back((i * i + 3 * step + (i % 4) * step) % 10);
  return words;
}

// A mean over the words, or their sum.
Tensor loss_of(const WordModel& model, const Indices& words, bool mean) {
  const Tensor squares = sum(square(model.rows(words)) * model.factor);
  return squares * (mean ? 1.0 / static_cast<double>(words.size()) : 0.05);
}

Values values_of(WordModel& model) {
  Values values = model.table().to_vector<double>();
  for (const double value : model.factor.to_vector<double>()) values.push_back(value);
  return values;
}

Values train_one_device(std::int64_t words, bool mean) {
  WordModel model(false);
  Sgd optimizer(model.parameters(), 0.1);
  for (int i = 0; i < kSteps; ++i) {
    optimizer.zero_grad();
    backward(loss_of(model, batch_of(i, 0, words), mean));
    optimizer.step();
  }
  return values_of(model);
}

// With a weighted mean the first device has two words more, the last two less.
Values train_devices(std::size_t count, const SyncOptions& options) {
  GradientSync sync(test_devices(count), options);
  auto replicas = sync.replicate(WordModel(true));
  const std::int64_t uneven = options.reduction == GradientReduction::weighted_mean ? 2 : 0;
  run_devices(count, [&](std::size_t d) {
    Sgd optimizer(replicas[d].parameters(), 0.1);
    const auto first = static_cast<std::int64_t>(d) * kBatch + (d > 0 ? uneven : 0);
    const auto last = (static_cast<std::int64_t>(d) + 1) * kBatch + (d + 1 < count ? uneven : 0);
    for (int i = 0; i < kSteps; ++i) {
      optimizer.zero_grad();
      auto step = sync.step(test_device(d), static_cast<double>(last - first));
      step.backward(loss_of(replicas[d], batch_of(i, first, last), options.reduction != GradientReduction::sum));
      optimizer.step();
    }
  });
  const Values values = values_of(replicas[0]);
  for (WordModel& replica : replicas) CHECK(values_of(replica) == values);
  return values;
}

// One step of each device, driven by one thread, backward in the given order. `use` gives each device's loss.
template <class Loss> void step_all(GradientSync& sync, const std::vector<WordModel>& replicas, Loss loss,
                                    std::vector<std::size_t> order = {}, Values weights = {}) {
  if (order.empty())
    for (std::size_t d = 0; d < replicas.size(); ++d) order.push_back(d);
  std::vector<Step> steps;
  for (std::size_t d = 0; d < replicas.size(); ++d)
    steps.push_back(sync.step(test_device(d), weights.empty() ? 1.0 : weights[d]));
  for (const std::size_t d : order) steps[d].backward_async(loss(d));
  std::vector<Step*> all;
  for (Step& step : steps) all.push_back(&step);
  join_all(std::span<Step*>(all));
}

const SyncOptions kSum{.reduction = GradientReduction::sum};

}  // namespace

TEST_CASE("sparse_gradients: N devices with batch B equal one device with N B and dense gradients") {
  for (const std::size_t count : {2, 4})
    for (const auto reduction : {GradientReduction::sum, GradientReduction::mean, GradientReduction::weighted_mean})
      for (const Absent absent : {Absent::zero, Absent::subset}) {
        const Values got = train_devices(count, {.reduction = reduction, .absent = absent});
        const Values one =
            train_one_device(static_cast<std::int64_t>(count) * kBatch, reduction != GradientReduction::sum);
        for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(one[i]).epsilon(1e-6));
      }
}

TEST_CASE("sparse_gradients: bit for bit the reduction of dense ones") {
  const auto gradient = [](bool sparse) {
    GradientSync sync(test_devices(3), {});
    const auto replicas = sync.replicate(WordModel(sparse));
    step_all(sync, replicas,
             [&](std::size_t d) { return loss_of(replicas[d], batch_of(static_cast<int>(d), 0, 9), true); }, {},
             {3, 1, 7});
    const Tensor& table = replicas[1].table();
    return sparse ? table.sparse_grad().dense().to_vector<double>() : table.grad().to_vector<double>();
  };
  const Values sparse = gradient(true);
  const Values dense = gradient(false);
  REQUIRE(sparse.size() == dense.size());
  // The engine for CUDA devices of one GPU divides rows before it sums equal ones.
  const double tolerance = test_device().kind == DeviceKind::cuda ? 1e-12 : 0;
  for (std::size_t i = 0; i < sparse.size(); ++i)
    CHECK(std::abs(sparse[i] - dense[i]) <= tolerance * std::abs(dense[i]));
}

TEST_CASE("sparse_gradients: the order of arrival changes no bit") {
  const std::vector<Indices> words{{3, 5}, {3, 5, 5}, {5, 3}};
  const Values scales{1e16, -1e16, 0.3};
  const auto rows = [&](const std::vector<std::size_t>& order) {
    GradientSync sync(test_devices(3), {.reduction = GradientReduction::mean});
    const auto replicas = sync.replicate(WordModel());
    step_all(
        sync, replicas, [&](std::size_t d) { return replicas[d].read(words[d], scales[d]); }, order);
    CHECK(indices_of(replicas[2].table()) == Indices{3, 5});
    CHECK(rows_of(replicas[0].table()) == rows_of(replicas[2].table()));
    return rows_of(replicas[1].table());
  };
  const Values expected = rows({0, 1, 2});
  CHECK(expected[0] == 0.3 / 3.0);  // in any other order of summands it is lost
  std::vector<std::size_t> order{0, 1, 2};
  while (std::ranges::next_permutation(order).found) CHECK(rows(order) == expected);
}

TEST_CASE("sparse_gradients: each device gets memory of its own, on itself") {
  GradientSync sync(test_devices(2), kSum);
  const auto replicas = sync.replicate(WordModel());
  step_all(sync, replicas, [&](std::size_t d) { return replicas[d].read({7, static_cast<std::int64_t>(d)}); });
  for (std::size_t d = 0; d < 2; ++d) {
    CHECK(indices_of(replicas[d].table()) == Indices{0, 1, 7});
    CHECK(rows_of(replicas[d].table()) == Values{1, 1, 1, 1, 2, 2});
    CHECK(replicas[d].table().sparse_grad().rows.device() == test_device(d));
  }
  CHECK(replicas[0].table().sparse_grad().rows.raw_data() != replicas[1].table().sparse_grad().rows.raw_data());
}

TEST_CASE("sparse_gradients: devices that read nothing, or no rows") {
  for (const Absent absent : {Absent::zero, Absent::subset}) {
    GradientSync sync(test_devices(3), {.reduction = GradientReduction::mean, .absent = absent});
    const auto replicas = sync.replicate(WordModel());
    step_all(sync, replicas, [&](std::size_t d) {
      if (d == 0) return replicas[d].dense();
      return replicas[d].read(d == 1 ? Indices{4} : Indices{}, 6.0) + replicas[d].dense();
    });
    const double expected = absent == Absent::zero ? 2.0 : 3.0;
    for (const std::size_t d : {1, 2}) CHECK(rows_of(replicas[d].table()) == Values{expected, expected});
    if (absent == Absent::zero)
      CHECK(rows_of(replicas[0].table()) == Values{expected, expected});
    else
      CHECK_FALSE(replicas[0].table().sparse_grad().defined());
  }
  GradientSync sync(test_devices(2));
  const auto replicas = sync.replicate(WordModel());
  step_all(sync, replicas, [&](std::size_t d) { return replicas[d].read({}) + replicas[d].dense(); });
  CHECK(indices_of(replicas[0].table()).empty());
  CHECK(replicas[1].table().sparse_grad().rows.shape() == Shape{0, 2});
}

TEST_CASE("sparse_gradients: weight 0 contributes nothing; no weight at all leaves no gradient") {
  GradientSync sync(test_devices(2));
  const auto replicas = sync.replicate(WordModel());
  const double nan = std::numeric_limits<double>::quiet_NaN();
  step_all(sync, replicas, [&](std::size_t d) { return replicas[d].read({2}, d == 0 ? nan : 5.0); }, {}, {0, 3});
  CHECK(indices_of(replicas[0].table()) == Indices{2});
  CHECK(rows_of(replicas[0].table()) == Values{5, 5});
  for (const WordModel& replica : replicas) Tensor(replica.table()).zero_grad();
  step_all(sync, replicas, [&](std::size_t d) { return replicas[d].read({2}); }, {}, {0, 0});
  CHECK_FALSE(replicas[0].table().sparse_grad().defined());
}

TEST_CASE("sparse_gradients: micro-batches are one gradient, also when the last does not read the table") {
  for (const bool last_reads : {true, false}) {
    GradientSync sync(test_devices(2), kSum);
    const auto replicas = sync.replicate(WordModel());
    std::vector<Step> steps;
    for (std::size_t d = 0; d < 2; ++d) {
      steps.push_back(sync.step(test_device(d)));
      const NoSync local = steps.back().no_sync();
      backward(replicas[d].read({1, 3}));
      backward(replicas[d].read({3}, 10.0));
    }
    for (std::size_t d = 0; d < 2; ++d)
      steps[d].backward_async(last_reads ? replicas[d].read({8}) : replicas[d].dense());
    join_all(steps[0], steps[1]);
    CHECK(indices_of(replicas[1].table()) == (last_reads ? Indices{1, 3, 8} : Indices{1, 3}));
    CHECK(rows_of(replicas[1].table())[2] == 22);
    CHECK_THROWS_WITH_AS(step_all(sync, replicas, [&](std::size_t d) { return replicas[d].read({1}); }),
                         doctest::Contains("words.weight"), Error);  // zero_grad was forgotten
  }
}

TEST_CASE("sparse_gradients: a step without a loss takes part with what was accumulated, or with nothing") {
  GradientSync sync(test_devices(2), kSum);
  const auto replicas = sync.replicate(WordModel());
  auto first = sync.step(test_device());
  {
    const NoSync local = first.no_sync();
    backward(replicas[0].read({6}));
  }
  first.synchronize_async();
  auto second = sync.step(test_device(1));
  second.synchronize_async();
  join_all(first, second);
  for (const WordModel& replica : replicas) CHECK(indices_of(replica.table()) == Indices{6});
}

TEST_CASE("sparse_gradients: double buffering gives each step's rows one step later") {
  SyncOptions options = kSum;
  options.overlap = Overlap::double_buffered;
  GradientSync sync(test_devices(2), options);
  const auto replicas = sync.replicate(WordModel());
  run_devices(2, [&](std::size_t d) {
    for (std::int64_t i = 0; i < 8; ++i) {
      Tensor(replicas[d].table()).zero_grad();
      auto step = sync.step(test_device(d));
      step.backward(replicas[d].read({i, static_cast<std::int64_t>(d)}, 100.0 + static_cast<double>(i)));
      const Indices got = indices_of(replicas[d].table());
      CHECK(std::ranges::count(got, i == 0 ? -1 : i - 1) == 1);
      if (i > 0)
        CHECK(rows_of(replicas[d].table()).back() == (i > 2 ? 2 : i == 2 ? 3 : 1) * (99.0 + static_cast<double>(i)));
    }
    CHECK(sync.flush(test_device(d)));
    CHECK(indices_of(replicas[d].table()) == Indices{0, 1, 7});
    sync.leave(test_device(d));
  });
}

TEST_CASE("sparse_gradients: updates during backward are those of a step after it") {
  const auto train = [](Overlap overlap) {
    GradientSync sync(test_devices(2), {.overlap = overlap});
    auto replicas = sync.replicate(WordModel());
    std::vector<std::unique_ptr<Sgd>> optimizers;
    for (std::size_t d = 0; d < 2; ++d) {
      optimizers.push_back(std::make_unique<Sgd>(replicas[d].parameters(), 0.1));
      if (overlap == Overlap::in_backward) sync.attach(test_device(d), *optimizers[d]);
    }
    run_devices(2, [&](std::size_t d) {
      for (int i = 0; i < kSteps; ++i) {
        optimizers[d]->zero_grad();
        auto step = sync.step(test_device(d));
        step.backward(loss_of(replicas[d], batch_of(i, static_cast<std::int64_t>(d), 6), true));
        if (overlap == Overlap::immediate) optimizers[d]->step();
      }
    });
    CHECK(optimizers[0]->state().parameters.front().steps == kSteps);
    CHECK(values_of(replicas[0]) == values_of(replicas[1]));
    return values_of(replicas[0]);
  };
  CHECK(train(Overlap::in_backward) == train(Overlap::immediate));
}

TEST_CASE("sparse_gradients: a device that left follows") {
  GradientSync sync(test_devices(2));
  const auto replicas = sync.replicate(WordModel());
  run_devices(2, [&](std::size_t d) {
    Sgd optimizer({replicas[d].table()}, 0.5);
    for (std::int64_t i = 0; i < (d == 0 ? 2 : 5); ++i) {
      optimizer.zero_grad();
      auto step = sync.step(test_device(d));
      step.backward(replicas[d].read({i, i + 1}));
      optimizer.step();
    }
    sync.leave(test_device(d), Follow::yes);
    while (sync.follow(test_device(d))) {
      optimizer.step();
      optimizer.zero_grad();
    }
  });
  CHECK(replicas[0].table().to_vector<double>() == replicas[1].table().to_vector<double>());
}

TEST_CASE("sparse_gradients: clipping by norm counts the reduced rows on every device") {
  GradientSync sync(test_devices(2), kSum);
  auto replicas = sync.replicate(WordModel());
  step_all(sync, replicas, [&](std::size_t d) { return replicas[d].read({4}, d == 0 ? 1.0 : 2.0); });
  for (WordModel& replica : replicas) {
    const std::vector<Tensor> parameters{replica.table()};
    CHECK(clip_grad_norm(parameters, 1.0) == doctest::Approx(std::sqrt(18.0)));
    CHECK(rows_of(replica.table())[0] == doctest::Approx(std::sqrt(0.5)));
  }
}

TEST_CASE("sparse_gradients: no device holds anything as large as the table") {
  constexpr std::int64_t kRows = 200'000;
  struct Large : Module {
    Tensor table = Tensor(Array::zeros({kRows, 16}, DType::f32, test_device()), true).set_sparse_grad(true);
    void visit(MemberVisitor& v) override { v.parameter("table", table); }
  };
  GradientSync sync(test_devices(2), {.consistency_every = 2});
  const auto replicas = sync.replicate(Large{});
  CHECK(sync.server().layout()->bytes() == 0);
  std::vector<std::size_t> before(2);
  for (std::size_t d = 0; d < 2; ++d) {
    memory_pool(test_device(d)).reset_peak();
    before[d] = memory_pool(test_device(d)).statistics().in_use;
  }
  run_devices(2, [&](std::size_t d) {
    Sgd optimizer({replicas[d].table}, 0.1);
    for (int i = 0; i < 3; ++i) {
      Indices words;
      for (std::int64_t k = 0; k < 1000; ++k) words.push_back((k * 7919 + 31 * i) % kRows);
      optimizer.zero_grad();
      auto step = sync.step(test_device(d));
      step.backward(sum(embedding(replicas[d].table, Tensor(Array::from(words, {1000}, test_device(d))))));
      CHECK(replicas[d].table.sparse_grad().count() == 1000);
      optimizer.step();
    }
  });
  for (std::size_t d = 0; d < 2; ++d)
    CHECK(memory_pool(test_device(d)).statistics().peak_in_use - before[d] < kRows * 16 * 4 / 4);
}

TEST_CASE("sparse_gradients: with reductions off each device keeps its own") {
  GradientSync sync(test_devices(2), kSum);
  const auto replicas = sync.replicate(WordModel());
  sync.set_reductions_enabled(false);
  step_all(sync, replicas, [&](std::size_t d) { return d == 0 ? replicas[d].read({4, 4}) : replicas[d].dense(); });
  CHECK(rows_of(replicas[0].table()) == Values{2, 2});
  CHECK_FALSE(replicas[1].table().sparse_grad().defined());
}

TEST_CASE("sparse_gradients: reports and events name the parameter") {
  GradientSync sync(test_devices(2), kSum);
  const auto replicas = sync.replicate(WordModel());
  step_all(sync, replicas, [&](std::size_t d) { return replicas[d].read({4}) + replicas[d].dense(); });
  CHECK(sync.report().steps.back().reductions.size() == 2);
  CHECK(sync.recent_events().find("\"words.weight\"") != std::string::npos);
}
