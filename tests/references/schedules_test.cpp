// SPDX-License-Identifier: Apache-2.0
// Every learning rate schedule beside PyTorch's.
#include <doctest/doctest.h>
#include <tutti/backend/error.h>
#include <tutti/optim/reduce_on_plateau.h>
#include <tutti/optim/schedule.h>
#include <tutti/tests/references/reference_file.h>

#include <fmt/format.h>

#include <map>
#include <set>

using namespace tutti;
using namespace tutti::testing;

namespace {

using Make = Schedule (*)(const Attributes&);

double rate(const Attributes& a) { return a.number("rate"); }

std::vector<std::int64_t> milestones(const Attributes& a) {
  const Axes listed = a.integers("milestones");
  return {listed.begin(), listed.end()};
}

const std::map<std::string, Make> kSchedules{
    {"constant", [](const Attributes& a) { return Schedule::constant(rate(a)); }},
    {"step", [](const Attributes& a) { return Schedule::step(rate(a), a.integer("every"), a.number("gamma")); }},
    {"multi_step", [](const Attributes& a) { return Schedule::multi_step(rate(a), milestones(a), a.number("gamma")); }},
    {"linear",
     [](const Attributes& a) { return Schedule::linear(a.number("from"), a.number("to"), a.integer("steps")); }},
    {"exponential", [](const Attributes& a) { return Schedule::exponential(rate(a), a.number("gamma")); }},
    {"polynomial",
     [](const Attributes& a) { return Schedule::polynomial(rate(a), a.integer("steps"), a.number("power")); }},
    {"cosine", [](const Attributes& a) { return Schedule::cosine(rate(a), a.integer("steps"), a.number("lowest")); }},
    {"cosine_restarts",
     [](const Attributes& a) {
       return Schedule::cosine_restarts(rate(a), a.integer("steps"), a.integer("factor"), a.number("lowest"));
     }},
    {"one_cycle",
     [](const Attributes& a) {
       return Schedule::one_cycle(a.number("highest"), {.steps = a.integer("steps"),
                                                        .rising = a.number("rising"),
                                                        .cosine = a.flag("cosine"),
                                                        .div_factor = a.number("div_factor"),
                                                        .final_div_factor = a.number("final_div_factor"),
                                                        .three_phase = a.flag("three_phase")});
     }},
    {"cyclic",
     [](const Attributes& a) {
       return Schedule::cyclic(a.number("lowest"), a.number("highest"),
                               {.rising = a.integer("rising"),
                                .falling = a.integer("falling", 0),
                                .cycle_factor = a.number("cycle_factor", 1),
                                .step_factor = a.number("step_factor", 1)});
     }},
    {"warm_up",
     [](const Attributes& a) {
       return Schedule::warm_up(a.integer("warm_up"), Schedule::cosine(rate(a), a.integer("steps")),
                                a.number("start_factor"));
     }},
    {"sequential",
     [](const Attributes& a) {
       return Schedule::sequential(
           {Schedule::constant(a.number("factor") * rate(a)), Schedule::exponential(rate(a), a.number("gamma"))},
           {a.integer("milestone")});
     }},
    {"chained",
     [](const Attributes& a) {
       return Schedule::chained({Schedule::linear(rate(a) * a.number("start_factor"), rate(a), a.integer("steps")),
                                 Schedule::step(1, a.integer("every"), a.number("gamma"))});
     }},
    {"noam",
     [](const Attributes& a) { return Schedule::noam(a.integer("width"), a.integer("warm_up"), a.number("scale")); }},
};

PlateauOptions plateau_options(const Attributes& a) {
  using Mode = PlateauOptions::Mode;
  using Threshold = PlateauOptions::Threshold;
  return {.mode = a.flag("maximise") ? Mode::max : Mode::min,
          .factor = a.number("factor"),
          .patience = a.integer("patience"),
          .threshold = a.number("threshold"),
          .threshold_mode = a.flag("absolute") ? Threshold::absolute : Threshold::relative,
          .cooldown = a.integer("cooldown"),
          .lowest = a.number("lowest")};
}

std::vector<double> rates(const std::string& kind, const Attributes& attributes, const std::vector<double>& metrics) {
  std::vector<double> found;
  if (kind == "plateau") {
    ReduceOnPlateau schedule(rate(attributes), plateau_options(attributes));
    for (const double metric : metrics) found.push_back(schedule.update(metric));
    return found;
  }
  const Schedule schedule = kSchedules.at(kind)(attributes);
  for (std::size_t step = 0; step < metrics.size(); ++step) found.push_back(schedule(static_cast<std::int64_t>(step)));
  return found;
}

}  // namespace

TEST_SUITE_BEGIN("cpu");  // numbers alone

TEST_CASE("references: every schedule, step by step") {
  const auto arrays = reference_arrays("schedules");
  const std::vector<double> metrics = arrays.at("metrics").to_vector<double>();
  std::set<std::string> seen;
  for (const auto& [name, attributes] : reference_attributes("schedules")) {
    const std::string kind = name.substr(0, name.find('.'));
    const std::vector<double> expected = arrays.at(name + ".rates").to_vector<double>();
    const std::vector<double> found = rates(kind, attributes, metrics);
    REQUIRE(found.size() == expected.size());
    for (std::size_t step = 0; step < expected.size(); ++step)
      CHECK_MESSAGE(found[step] == doctest::Approx(expected[step]).epsilon(1e-10), name, " at step ", step);
    seen.insert(kind);
  }
  CHECK(seen.size() == kSchedules.size() + 1);
}

TEST_SUITE_END();
