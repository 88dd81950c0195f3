// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/error.h>
#include <tutti/optim/adamw.h>
#include <tutti/optim/scheduler.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/optim/gradients.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

using namespace tutti;
using namespace tutti::testing;

namespace {

struct TwoGroups {
  Tensor a = make_parameter<float>({1});
  Tensor b = make_parameter<float>({1});
  Sgd optimizer{{{{a}, 0.5, {}}, {{b}, 0.125, {}}}};

  void check_rates(double first, double second) const {
    CHECK(optimizer.learning_rate(0) == doctest::Approx(first).epsilon(1e-14));
    CHECK(optimizer.learning_rate(1) == doctest::Approx(second).epsilon(1e-14));
  }
};

}  // namespace

TEST_CASE("scheduler: every group's rate is its own, times the schedule's factor") {
  TwoGroups groups;
  Scheduler scheduler(groups.optimizer, Schedule::warm_up(4, Schedule::exponential(1, 0.5), 0.5));
  CHECK(scheduler.base_rates() == std::vector<double>{0.5, 0.125});
  const std::vector<double> factors{0.5, 0.625, 0.75, 0.875, 1, 0.5, 0.25};
  for (std::size_t step = 0; step < factors.size(); ++step) {
    CAPTURE(step);
    CHECK(scheduler.steps() == static_cast<std::int64_t>(step));
    groups.check_rates(0.5 * factors[step], 0.125 * factors[step]);
    scheduler.step();
  }
  scheduler.set_step(2);
  groups.check_rates(0.375, 0.09375);
  scheduler.step();
  groups.check_rates(0.4375, 0.109375);
}

// torch.optim.SGD([{"params": [a], "lr": 0.5}, {"params": [b], "lr": 0.125}]) with CosineAnnealingLR(optimizer, 5), by
// PyTorch 2.15.
TEST_CASE("scheduler: two groups have the rates of torch") {
  TwoGroups groups;
  Scheduler scheduler(groups.optimizer, Schedule::cosine(1, 5));
  const std::vector<double> first{0.5, 0.4522542485937369, 0.32725424859373686, 0.1727457514062631, 0.04774575140626314,
                                  0.0};
  for (const double rate : first) {
    CHECK(groups.optimizer.learning_rate(0) == doctest::Approx(rate).epsilon(1e-12));
    CHECK(groups.optimizer.learning_rate(1) == doctest::Approx(rate / 4).epsilon(1e-12));
    scheduler.step();
  }
}

TEST_CASE("scheduler: goes on from its state, with the base rates that it had") {
  TwoGroups groups;
  const auto schedule = [] { return Schedule::exponential(1, 1.0 / 3); };
  Scheduler whole(groups.optimizer, schedule());
  for (int i = 0; i < 7; ++i) whole.step();
  const std::string text = whole.to_text();

  TwoGroups resumed;
  resumed.optimizer.set_learning_rate(3.0);
  Scheduler part(resumed.optimizer, schedule());
  const auto load = part.prepare_load(text);
  CHECK(resumed.optimizer.learning_rate(1) == 3.0);
  CHECK(part.steps() == 0);
  load();
  CHECK(part.steps() == 7);
  for (int i = 0; i < 3; ++i) {
    for (std::size_t group = 0; group < 2; ++group)
      CHECK(resumed.optimizer.learning_rate(group) == groups.optimizer.learning_rate(group));
    whole.step();
    part.step();
  }
  CHECK(part.to_text() == whole.to_text());
}

TEST_CASE("scheduler: what cannot be is refused, and changes nothing") {
  TwoGroups groups;
  CHECK_THROWS_WITH_AS(Scheduler(groups.optimizer, Schedule([](std::int64_t) { return -1.0; })),
                       doctest::Contains("[Scheduler] the schedule's factor"), Error);
  groups.check_rates(0.5, 0.125);
  Scheduler scheduler(groups.optimizer, Schedule::one_cycle(1, {.steps = 2}));
  scheduler.step();
  const double last = groups.optimizer.learning_rate();
  CHECK_THROWS_WITH_AS(scheduler.step(), doctest::Contains("one_cycle has 2 steps"), Error);
  CHECK(scheduler.steps() == 1);
  for (const char* text : {"", "0.5 0.125", "0.5 0.125 1 1", "0.5 0.125 x", "0.5 0.125 -1", "0.5 0.125 2", "-1 1 1",
                           "nan 1 1", "1e300 inf 1"})
    CHECK_THROWS_AS(scheduler.load_text(text), Error);
  CHECK(scheduler.steps() == 1);
  CHECK(groups.optimizer.learning_rate() == last);
}
