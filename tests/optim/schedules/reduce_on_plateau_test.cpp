// SPDX-License-Identifier: Apache-2.0
// The tables are what torch 2.15's ReduceLROnPlateau gives to SGD(lr=1) after each metric.
#include <doctest/doctest.h>
#include <tutti/backend/error.h>
#include <tutti/optim/reduce_on_plateau.h>

#include <cmath>
#include <vector>

using namespace tutti;

namespace {

using Mode = PlateauOptions::Mode;
using Threshold = PlateauOptions::Threshold;

const std::vector<double> kMetrics{1, 0.9, 0.9, 0.9, 0.89995, 0.9, 0.5, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6};

void check_rates(const PlateauOptions& options, const std::vector<double>& metrics,
                 const std::vector<double>& expected) {
  ReduceOnPlateau schedule(1.0, options);
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    CAPTURE(i);
    CHECK(schedule.update(metrics[i]) == doctest::Approx(expected[i]).epsilon(1e-12));
  }
}

}  // namespace

TEST_CASE("plateau: the rates of torch") {
  check_rates({.factor = 0.5, .patience = 2}, kMetrics,
              {1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125, 0.125, 0.125});
  check_rates({.patience = 1, .cooldown = 2, .lowest = 0.05}, kMetrics,
              {1, 1, 1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05});
  check_rates(
      {.mode = Mode::max, .factor = 0.5, .patience = 0, .threshold = 0.1, .threshold_mode = Threshold::absolute},
      {0.1, 0.2, 0.3, 0.35, 0.36, 0.37, 0.9, std::nan(""), 0.5},
      {1, 0.5, 0.5, 0.25, 0.125, 0.0625, 0.0625, 0.03125, 0.015625});
  check_rates({.patience = 0, .epsilon = 1e-4}, std::vector<double>(8, 5.0),
              {1, 0.1, 0.01, 0.001, 0.0001, 0.0001, 0.0001, 0.0001});
}

TEST_CASE("plateau: goes on from its state, as a value or as text") {
  const PlateauOptions options{.factor = 1.0 / 3, .patience = 1, .cooldown = 1};
  ReduceOnPlateau whole(0.1, options);
  ReduceOnPlateau fresh(0.7, options);
  fresh.load_text(ReduceOnPlateau(0.1, options).to_text());  // a best of infinity
  for (const double metric : kMetrics) {
    ReduceOnPlateau part(0.7, options);
    part.load_state(whole.state());
    ReduceOnPlateau read(0.7, options);
    read.load_text(whole.to_text());
    const double rate = whole.update(metric);
    CHECK(part.update(metric) == rate);
    CHECK(read.update(metric) == rate);
    CHECK(fresh.update(metric) == rate);
  }
  CHECK(whole.learning_rate() < 0.1);
}

TEST_CASE("plateau: what cannot be is refused") {
  const auto refused = [](const PlateauOptions& options, const char* option) {
    CHECK_THROWS_WITH_AS(ReduceOnPlateau(0.1, options), doctest::Contains(option), Error);
  };
  refused({.factor = 1}, "factor");
  refused({.factor = 0}, "factor");
  refused({.patience = -1}, "patience");
  refused({.threshold = -1}, "threshold");
  refused({.cooldown = -1}, "cooldown");
  refused({.lowest = -1}, "lowest");
  refused({.epsilon = std::nan("")}, "epsilon");
  CHECK_THROWS_AS(ReduceOnPlateau(-1), Error);
  ReduceOnPlateau schedule(0.1);
  for (const char* text : {"", "0.1 2 3", "0.1 2 3 4 5", "0.1 2 3 x", "0.1 2 3.5 4", "0.1 2 -3 4", "nan 2 3 4"})
    CHECK_THROWS_AS(schedule.load_text(text), Error);
  CHECK(schedule.learning_rate() == 0.1);
}
