// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/server/layout_learner.h>

#include <doctest/doctest.h>

#include <initializer_list>
#include <vector>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using Policy = LayoutLearner::Policy;

namespace {

const std::vector<SyncParameter> kParameters{{"a", {2}, DType::f32}, {"b", {3}, DType::f32}, {"c", {4}, DType::f32}};

std::vector<std::uint32_t> order_of(const LayoutLearner& learner) {
  std::vector<std::uint32_t> order;
  for (const GradientLayout::Place& place : learner.layout()->places()) order.push_back(place.parameter.value);
  return order;
}

bool learns_from(LayoutLearner& learner, std::initializer_list<std::uint32_t> order) {
  learner.begin_generation();
  for (const std::uint32_t id : order) learner.note({id});
  const auto learned = learner.learn(kParameters);
  if (learned) learner.adopt(kParameters, *learned);
  return learned.has_value();
}

}  // namespace

TEST_CASE("layout_learner: guesses that the last parameter's gradient comes first") {
  LayoutLearner learner(Policy::follow);
  CHECK(learner.layout() == nullptr);
  learner.guess(kParameters);
  CHECK(order_of(learner) == std::vector<std::uint32_t>{2, 1, 0});
}

TEST_CASE("layout_learner: corrects its guess after one step, and keeps parameters that no step has shown") {
  LayoutLearner learner(Policy::follow);
  learner.guess(kParameters);
  CHECK(learns_from(learner, {0, 2}));
  CHECK(order_of(learner) == std::vector<std::uint32_t>{0, 2, 1});
}

TEST_CASE("layout_learner: follows another order when three steps in a row have it, and not before") {
  LayoutLearner learner(Policy::follow);
  learner.guess(kParameters);
  CHECK_FALSE(learns_from(learner, {2, 1, 0}));
  CHECK_FALSE(learns_from(learner, {0, 1, 2}));
  CHECK_FALSE(learns_from(learner, {0, 1, 2}));
  CHECK_FALSE(learns_from(learner, {2, 1, 0}));  // begins to count anew
  CHECK_FALSE(learns_from(learner, {0, 1, 2}));
  CHECK_FALSE(learns_from(learner, {0, 1, 2}));
  CHECK(learns_from(learner, {0, 1, 2}));
  CHECK(order_of(learner) == std::vector<std::uint32_t>{0, 1, 2});
}

TEST_CASE("layout_learner: learns once where places must stay, and never where shares depend on them") {
  LayoutLearner once(Policy::learn_once);
  once.guess(kParameters);
  CHECK(learns_from(once, {1, 0, 2}));
  for (int step = 0; step < 6; ++step) CHECK_FALSE(learns_from(once, {0, 1, 2}));
  LayoutLearner fixed(Policy::fixed);
  fixed.guess(kParameters);
  for (int step = 0; step < 6; ++step) CHECK_FALSE(learns_from(fixed, {0, 1, 2}));
}

TEST_CASE("layout_learner: a step without gradients teaches nothing") {
  LayoutLearner learner(Policy::follow);
  learner.guess(kParameters);
  CHECK_FALSE(learns_from(learner, {}));
  CHECK(learns_from(learner, {0, 1, 2}));  // the guess still counts as one
}

TEST_SUITE_END();
