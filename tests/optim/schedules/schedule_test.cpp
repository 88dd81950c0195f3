// SPDX-License-Identifier: Apache-2.0
// The tables are what torch 2.15's lr_scheduler classes give to SGD(lr=0.1), one value a step from the first on.
#include <doctest/doctest.h>
#include <tutti/backend/error.h>
#include <tutti/optim/schedule.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/optim/gradients.h>

#include <cmath>
#include <limits>

using namespace tutti;
using namespace tutti::testing;

namespace {

void check_rates(const Schedule& schedule, const std::vector<double>& expected) {
  for (std::size_t step = 0; step < expected.size(); ++step) {
    CAPTURE(step);
    CHECK(schedule(static_cast<std::int64_t>(step)) == doctest::Approx(expected[step]).epsilon(1e-12));
  }
}

}  // namespace

TEST_CASE("schedule: constant, step, multi-step, linear, exponential and polynomial") {
  check_rates(Schedule::constant(0.1), {0.1, 0.1, 0.1});
  check_rates(Schedule::step(0.1, 3, 0.5), {0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.025, 0.025, 0.025, 0.0125});
  check_rates(Schedule::multi_step(0.1, {2, 5, 6}), {0.1, 0.1, 0.01, 0.01, 0.01, 0.001, 0.0001, 0.0001});
  check_rates(Schedule::multi_step(0.1, {2, 2}, 0.5), {0.1, 0.1, 0.025});
  check_rates(Schedule::linear(0.025, 0.1, 4), {0.025, 0.04375, 0.0625, 0.08125, 0.1, 0.1, 0.1});
  check_rates(Schedule::exponential(0.1, 0.9), {0.1, 0.09, 0.081, 0.0729, 0.06561, 0.059049});
  check_rates(Schedule::polynomial(0.1, 5, 2.0), {0.1, 0.064, 0.036, 0.016, 0.004, 0, 0, 0});
}

TEST_CASE("schedule: cosine goes on as torch's does, and restarts") {
  check_rates(
      Schedule::cosine(0.1, 5, 0.01),
      {0.1, 0.0914057647468726, 0.0689057647468726, 0.0410942352531274, 0.0185942352531274, 0.01, 0.0185942352531274,
       0.0410942352531274, 0.0689057647468727, 0.0914057647468727, 0.1, 0.0914057647468727, 0.0689057647468727});
  check_rates(Schedule::cosine_restarts(0.1, 3, 2, 0.01),
              {0.1, 0.0775, 0.0325, 0.1, 0.0939711431702998, 0.0775, 0.055, 0.0325, 0.0160288568297003, 0.1,
               0.0984666621830081, 0.0939711431702998});
  check_rates(Schedule::cosine_restarts(0.1, 3), {0.1, 0.075, 0.025, 0.1, 0.075, 0.025, 0.1, 0.075});
  CHECK(Schedule::cosine_restarts(0.1, 3)(3'000'000'000'001) == doctest::Approx(0.075));
}

TEST_CASE("schedule: one cycle in two phases and in three, and no further") {
  const Schedule cosine = Schedule::one_cycle(0.1, {.steps = 10});
  check_rates(cosine, {0.004, 0.052, 0.1, 0.0950484632013474, 0.0811745653949763, 0.0611262021936289,
                       0.0388741978063711, 0.0188258346050237, 0.00495193679865263, 4e-07});
  CHECK_THROWS_WITH_AS(cosine(10), doctest::Contains("has 10 steps, and was asked for step 10"), Error);
  const Schedule::OneCycle three{
      .steps = 12, .rising = 0.4, .cosine = false, .div_factor = 10, .final_div_factor = 100, .three_phase = true};
  check_rates(Schedule::one_cycle(0.1, three),
              {0.01, 0.0336842105263158, 0.0573684210526316, 0.0810526315789474, 0.0952631578947369, 0.0715789473684211,
               0.0478947368421053, 0.0242105263157895, 0.00883529411764706, 0.00592352941176471, 0.00301176470588235,
               9.99999999999994e-05});
}

TEST_CASE("schedule: cycles up and down, of equal heights and of lower ones") {
  CHECK(Schedule::cyclic(0.1, 0.5)(2000) == doctest::Approx(0.5));
  check_rates(Schedule::cyclic(0.1, 0.5, {.rising = 2}), {0.1, 0.3, 0.5, 0.3, 0.1, 0.3, 0.5, 0.3, 0.1});
  check_rates(Schedule::cyclic(0.1, 0.5, {.rising = 1, .falling = 2, .cycle_factor = 0.5}),
              {0.1, 0.5, 0.3, 0.1, 0.3, 0.2, 0.1, 0.2, 0.15, 0.1});
  check_rates(Schedule::cyclic(0.0, 1.0, {.rising = 2, .step_factor = 0.5}), {0, 0.25, 0.25, 0.0625, 0, 0.015625});
}

// Figures by hand: 512^-0.5 min(t^-0.5, t 4000^-1.5), t = step + 1.
TEST_CASE("schedule: Noam rises in a line and falls with the root") {
  const Schedule noam = Schedule::noam(512, 4000);
  CHECK(noam(0) == doctest::Approx(1.746928107421711e-07));
  CHECK(noam(1999) == doctest::Approx(2000 * noam(0)));
  CHECK(noam(3999) == doctest::Approx(6.987712429686844e-04));
  CHECK(noam(15999) == doctest::Approx(0.5 * noam(3999)));
  CHECK(Schedule::noam(512, 4000, 2.0)(7) == doctest::Approx(2 * noam(7)));
}

TEST_CASE("schedule: warm-up, sequences and products of others") {
  check_rates(Schedule::warm_up(4, Schedule::exponential(0.1, 0.5), 0.2),
              {0.02, 0.04, 0.06, 0.08, 0.1, 0.05, 0.025, 0.0125, 0.00625});
  CHECK(Schedule::warm_up(4, Schedule::constant(0.1))(0) == 0.0);
  check_rates(Schedule::sequential(
                  {Schedule::constant(0.01), Schedule::exponential(0.1, 0.9), Schedule::step(0.1, 2, 0.5)}, {2, 5}),
              {0.01, 0.01, 0.1, 0.09, 0.081, 0.1, 0.1, 0.05, 0.05, 0.025});
  check_rates(Schedule::chained({Schedule::linear(0.05, 0.1, 3), Schedule::exponential(1, 0.9)}),
              {0.05, 0.06, 0.0675, 0.0729, 0.06561, 0.059049, 0.0531441});
}

TEST_CASE("schedule: any function, as a value, with the optimizer's count of steps for state") {
  Schedule schedule([](std::int64_t step) { return 1.0 / static_cast<double>(1 + step); });
  const Schedule copy = schedule;
  schedule = Schedule::constant(3);
  CHECK(copy(3) == 0.25);
  const Tensor p = make_parameter<float>({0});
  Sgd optimizer({p}, 1);
  for (int i = 0; i < 3; ++i) {
    optimizer.set_learning_rate(copy(optimizer.steps()));
    set_gradient<float>(p, {1});
    optimizer.step();
  }
  CHECK(p.to_vector<float>()[0] == doctest::Approx(-1 - 0.5 - 1.0 / 3));
}

TEST_CASE("schedule: what cannot be is refused") {
  const Schedule fine = Schedule::constant(0.1);
  CHECK_THROWS_WITH_AS(fine(-1), doctest::Contains("got -1"), Error);
  CHECK_THROWS_AS(Schedule(nullptr), Error);
  CHECK_THROWS_WITH_AS(Schedule::constant(-0.1), doctest::Contains("learning rate"), Error);
  CHECK_THROWS_AS(Schedule::constant(std::numeric_limits<double>::infinity()), Error);
  CHECK_THROWS_WITH_AS(Schedule::step(0.1, 0), doctest::Contains("step needs at least one step, got 0"), Error);
  CHECK_THROWS_WITH_AS(Schedule::step(0.1, 1, std::nan("")), doctest::Contains("gamma"), Error);
  CHECK_THROWS_WITH_AS(Schedule::multi_step(0.1, {3, 2}), doctest::Contains("got 2 after 3"), Error);
  CHECK_THROWS_AS(Schedule::multi_step(0.1, {-1}), Error);
  CHECK_THROWS_AS(Schedule::linear(0.1, -1, 3), Error);
  CHECK_THROWS_AS(Schedule::linear(0.1, 1, 0), Error);
  CHECK_THROWS_AS(Schedule::exponential(0.1, 0), Error);
  CHECK_THROWS_AS(Schedule::polynomial(0.1, 3, -1), Error);
  CHECK_THROWS_AS(Schedule::cosine(0.1, 0), Error);
  CHECK_THROWS_AS(Schedule::cosine_restarts(0.1, 3, 0), Error);
  CHECK_THROWS_AS(Schedule::noam(0, 100), Error);
  CHECK_THROWS_AS(Schedule::one_cycle(0.1, {.steps = 0}), Error);
  CHECK_THROWS_WITH_AS(Schedule::one_cycle(0.1, {.steps = 10, .rising = 1}), doctest::Contains("rising"), Error);
  CHECK_THROWS_WITH_AS(Schedule::cyclic(0.1, 0.2, {.rising = 0}), doctest::Contains("cyclic needs at least"), Error);
  CHECK_THROWS_WITH_AS(Schedule::cyclic(0.1, 0.2, {.falling = -1}), doctest::Contains("cyclic cannot fall"), Error);
  CHECK_THROWS_WITH_AS(Schedule::cyclic(0.1, 0.2, {.cycle_factor = 0}), doctest::Contains("cycle_factor"), Error);
  CHECK_THROWS_AS(Schedule::warm_up(0, fine), Error);
  CHECK_THROWS_WITH_AS(Schedule::sequential({fine, fine}, {}), doctest::Contains("need 1 milestones"), Error);
  CHECK_THROWS_AS(Schedule::sequential({fine, fine, fine}, {3, 2}), Error);
  CHECK_THROWS_AS(Schedule::chained({}), Error);
}
