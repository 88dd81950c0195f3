// SPDX-License-Identifier: Apache-2.0
// What a trainer counts as processed, and what becomes of an accumulation that an error interrupts.
#include <tutti/autodiff/operations.h>
#include <tutti/backend/raise.h>
#include <tutti/optim/gradient_scaler.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/test_devices.h>
#include <tutti/tests/train/linear_training.h>
#include <tutti/train/eager_trainer.h>
#include <tutti/train/graph_trainer.h>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace tutti;

namespace {

struct Setup {
  Linear model = linear_network();
  Sgd sgd{model.parameters(), 0.1};
  std::vector<float> weights() { return model.parameters()[0].to_vector<float>(); }
};

}  // namespace

TEST_CASE("EagerTrainer: samples are all examples that were processed, by weights that need not be whole") {
  struct Weighted {
    Batch batch;
    double share;
    double weight() const { return share; }
  };
  struct Stream : DataStream<Weighted> {
    std::optional<Weighted> next() override {
      if (++at > 10) return {};
      return Weighted{random_batch(4, at), 0.25};
    }
    void start_epoch(std::int64_t) override { at = 0; }
    std::string position() const override { return std::to_string(at); }
    void seek(const std::string& position) override { at = std::stoull(position); }
    std::uint64_t at = 0;
  } stream;
  for (const std::int64_t accumulation : {1, 3}) {
    Setup setup;
    EagerTrainer<Weighted> trainer(setup.model, setup.sgd, stream,
                                   [&](const Weighted& item) { return linear_losses(setup.model, item.batch); },
                                   {.accumulation = accumulation});
    trainer.train({.epochs = 3});
    CHECK(trainer.storage().samples() == 7.5);
  }

  Setup setup;
  GradientScaler scaler;
  ListStream data({random_batch(4, 1), random_batch(3, 2), random_batch(2, 3)});
  EagerTrainer<Batch> trainer(
      setup.model, setup.sgd, data,
      [&](const Batch& b) -> Losses {
        return {{"loss", linear_losses(setup.model, b)[0].second * (b.size == 3 ? INFINITY : 1.0)}};
      },
      {.scaler = &scaler});
  trainer.train({.epochs = 1});
  CHECK(setup.sgd.steps() == 2);  // one was skipped
  CHECK(trainer.updates() == 3);
  CHECK(trainer.storage().samples() == 9);
}

TEST_CASE("EagerTrainer: an error within an accumulation drops what was accumulated, and training goes on without it") {
  constexpr std::uint64_t kBroken = 11;  // of 17; by then a GraphTrainer replays
  std::vector<Batch> batches;
  std::vector<Batch> used;
  for (std::uint64_t i = 0; i < 17; ++i) {
    batches.push_back(random_batch(i == kBroken ? 2 : 4, i));
    if (i != kBroken && i != kBroken - 1) used.push_back(batches.back());
  }
  Setup uninterrupted;
  ListStream rest(used);
  EagerTrainer<Batch> reference(uninterrupted.model, uninterrupted.sgd, rest,
                                [&](const Batch& b) { return linear_losses(uninterrupted.model, b); },
                                {.accumulation = 2});
  reference.train({.epochs = 1});
  const auto check = [&](auto make_trainer, bool whole_updates) {
    Setup setup;
    ListStream data(batches);
    bool broken = false;
    const auto trainer = make_trainer(
        setup, data,
        [&](const Batch& b) {
          if (b.size == 2 && !std::exchange(broken, true)) raise<DataError>("an unreadable batch");
          return linear_losses(setup.model, b);
        },
        EagerOptions{.accumulation = 2, .whole_updates = whole_updates});
    trainer->set_log([](std::string_view) {});
    CHECK_THROWS_WITH_AS(trainer->train({.epochs = 1}), "an unreadable batch", DataError);
    CHECK(trainer->between_updates());
    for (const Tensor& parameter : setup.model.parameters()) CHECK_FALSE(parameter.grad().defined());
    trainer->train({.epochs = 1});
    CHECK(setup.weights() == uninterrupted.weights());
    CHECK(trainer->updates() == reference.updates());
    if constexpr (requires { trainer->captures(); }) CHECK(trainer->captures().replayed > 4);
    CHECK(trainer->storage().samples() == reference.storage().samples());
  };
  const auto eager = [](Setup& setup, ListStream& data, auto losses, EagerOptions options) {
    return std::make_unique<EagerTrainer<Batch>>(setup.model, setup.sgd, data, losses, options);
  };
  const auto graph = [](Setup& setup, ListStream& data, auto losses, EagerOptions options) {
    return std::make_unique<GraphTrainer<Batch>>(setup.model, setup.sgd, data, losses, options);
  };
  for (const bool whole_updates : {false, true}) {
    CAPTURE(whole_updates);
    check(eager, whole_updates);
    check(graph, whole_updates);
  }
}
