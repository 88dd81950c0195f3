// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/epochs.h>

#include <tutti/backend/error.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace tutti;

namespace {

const double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Epochs whose validation losses are given, one for each epoch.
struct Run {
  std::vector<double> losses;
  std::vector<double> factors{};
  std::vector<std::int64_t> kept{};  // epochs whose model was kept
  std::int64_t epoch = 0;

  LoopState operator()(const EpochsOptions& options, EpochSchedule& schedule, LoopState state = {}) {
    epoch = state.epoch;
    return epochs(options,
                  {.train_epoch =
                       [this](double factor) {
                         factors.push_back(factor);
                         return static_cast<double>(epoch++);
                       },
                   .validate = [this] { return losses.at(static_cast<std::size_t>(epoch - 1)); },
                   .keep_best = [this] { kept.push_back(epoch - 1); }},
                  schedule, std::move(state));
  }
  LoopState operator()(const EpochsOptions& options) { return (*this)(options, *EpochSchedule::constant()); }
};

bool always(std::int64_t) { return true; }

}  // namespace

TEST_SUITE_BEGIN("cpu");

TEST_CASE("epochs: the best of the eligible epochs is kept, whatever the others are") {
  Run run{.losses = {5, 1, 4, 3, 3, 6}};
  const LoopState state = run({.max_epochs = 6, .eligible = [](std::int64_t epoch) { return epoch >= 2; }});
  CHECK(run.kept == std::vector<std::int64_t>{2, 3});
  CHECK(state.min_validation_epoch == 3);
  CHECK(state.min_validation_loss == 3);
  CHECK(state.last_validation_loss == 6);
  CHECK(state.epoch == 6);
  CHECK(state.learning_curve.size() == 6);
  Run none{.losses = {5, 1}};
  CHECK_FALSE(none({.max_epochs = 2}).min_validation_epoch);
  CHECK(none.kept.empty());
}

TEST_CASE("epochs: validation is smoothed, and an epoch without it forgets nothing") {
  Run run{.losses = {8, kNaN, 4, kNaN, 0}};  // NaN: not asked for
  const LoopState state = run({.max_epochs = 5, .validation_frequency = 2, .smoothing = 0.25, .eligible = always});
  CHECK(state.learning_curve[0].validation->smoothed == 8);
  CHECK_FALSE(state.learning_curve[1].validation);
  CHECK(state.learning_curve[2].validation->smoothed == 7);
  CHECK(state.learning_curve[2].validation->loss == 4);
  CHECK(state.last_validation_loss == 7 * 0.75);
  Run last{.losses = {8, kNaN, kNaN, 2}};
  CHECK(last({.max_epochs = 4, .validation_frequency = 3}).last_validation_loss == 2);  // the last one always
}

TEST_CASE("epochs: a NaN is never the best") {
  Run run{.losses = {kNaN, 3, kNaN, 2}};
  const LoopState state = run({.max_epochs = 4, .smoothing = 1, .eligible = always});
  CHECK(state.min_validation_loss == 2);
  Run smooth{.losses = {4, kNaN, 2, 2}};
  CHECK(smooth({.max_epochs = 4, .smoothing = 0.5}).last_validation_loss == 2);
}

TEST_CASE("epochs: schedules, one of which stops") {
  Run decayed{.losses = std::vector<double>(5, 1)};
  decayed({.max_epochs = 5}, *EpochSchedule::decay(0.5, 2));
  CHECK(decayed.factors == std::vector<double>{1, 1, 0.5, 0.5, 0.25});
  Run plateau{.losses = {5, 4, 4, 4, 4, 4, 4, 4}};
  const LoopState state = plateau({.max_epochs = 8}, *EpochSchedule::reduce_on_plateau(0.5, 2, 0.3));
  CHECK(plateau.factors == std::vector<double>{1, 1, 1, 1, 0.5, 0.5});
  CHECK(state.stopped_by_schedule);
  CHECK(state.epoch == 6);
  Run early{.losses = {5, 4, 4, 4, 3, 3}};  // a least factor of 1: the first reduction stops
  CHECK(early({.max_epochs = 6}, *EpochSchedule::reduce_on_plateau(0.5, 2, 1)).epoch == 4);
}

TEST_CASE("epochs: on a plateau, epochs that were not validated count for nothing") {
  Run improves{.losses = {5, kNaN, kNaN, kNaN, kNaN, 4, kNaN, kNaN, kNaN, kNaN, 3, kNaN}};  // NaN: not asked for
  improves({.max_epochs = 11, .validation_frequency = 5}, *EpochSchedule::reduce_on_plateau(0.5, 2));
  CHECK(improves.factors == std::vector<double>(11, 1.0));
  Run stays{.losses = {5, kNaN, kNaN, 5, kNaN, kNaN, 5, kNaN, kNaN, 5}};
  stays({.max_epochs = 10, .validation_frequency = 3}, *EpochSchedule::reduce_on_plateau(0.5, 2));
  CHECK(stays.factors == std::vector<double>{1, 1, 1, 1, 1, 1, 1, 0.5, 0.5, 0.5});
}

TEST_CASE("epochs: without validation") {
  Run run{.losses = {}};
  const LoopState state = run({.max_epochs = 3, .validation_frequency = 0}, *EpochSchedule::reduce_on_plateau(0.5, 1));
  CHECK(state.epoch == 3);
  CHECK_FALSE(state.last_validation_loss);
  CHECK(run.factors == std::vector<double>{1, 1, 1});
  CHECK_THROWS_WITH_AS(run({.validation_frequency = 0, .eligible = always}),
                       doctest::Contains("a best model needs validate and keep_best, and a validation_frequency"),
                       Error);
}

TEST_CASE("epochs: interrupted anywhere it goes on as if it had not been") {
  const EpochsOptions options{.max_epochs = 8, .validation_frequency = 2, .smoothing = 0.5, .eligible = always};
  const std::vector<double> losses{5, 1, 4, 1, 6, 1, 6, 3};
  Run whole{.losses = losses};
  const auto schedule = EpochSchedule::reduce_on_plateau(0.5, 2);
  const LoopState expected = whole(options, *schedule);
  for (std::int64_t cut = 0; cut <= 8; ++cut) {
    Run run{.losses = losses};
    auto first = EpochSchedule::reduce_on_plateau(0.5, 2);
    EpochsOptions part = options;
    part.max_epochs = cut;
    if (cut > 0 && cut % 2 == 0) continue;  // it would validate after its last epoch
    const std::string text = run(part, *first).to_text();
    auto second = EpochSchedule::reduce_on_plateau(0.5, 2);
    second->load_state(first->state());
    CHECK(run(options, *second, LoopState::from_text(text)).to_text() == expected.to_text());
    CHECK(run.factors == whole.factors);
    CHECK(run.kept == whole.kept);
  }
  CHECK_THROWS_AS(LoopState::from_text("{}"), DataError);
  CHECK_THROWS_AS(LoopState::from_text("epoch"), DataError);
  CHECK_THROWS_AS(EpochSchedule::reduce_on_plateau(0.5, 2)->load_state("{}"), DataError);
}

TEST_CASE("epochs: options that cannot be are named") {
  Run run{.losses = {1}};
  CHECK_THROWS_WITH_AS(run({.smoothing = 0}), doctest::Contains("smoothing of 0"), Error);
  CHECK_THROWS_WITH_AS(run({.validation_frequency = -1}), doctest::Contains("every -1 epochs"), Error);
  CHECK_THROWS_AS(epochs({.eligible = always}, {.train_epoch = [](double) { return 0.0; }}, *EpochSchedule::constant()),
                  Error);
  CHECK_THROWS_AS(EpochSchedule::reduce_on_plateau(1.5, 2), Error);
  CHECK_THROWS_AS(EpochSchedule::decay(0.5, 0), Error);
}

TEST_SUITE_END();
