// SPDX-License-Identifier: Apache-2.0
// What a trainer counts as processed.
#include <tutti/autodiff/operations.h>
#include <tutti/optim/gradient_scaler.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/test_devices.h>
#include <tutti/tests/train/linear_training.h>
#include <tutti/train/eager_trainer.h>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

using namespace tutti;

namespace {

struct Setup {
  Linear model = linear_network();
  Sgd sgd{model.parameters(), 0.1};
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
