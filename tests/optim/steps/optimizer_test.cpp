// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/raise.h>
#include <tutti/optim/adadelta.h>
#include <tutti/optim/adagrad.h>
#include <tutti/optim/adam.h>
#include <tutti/optim/adamw.h>
#include <tutti/optim/lamb.h>
#include <tutti/optim/lbfgs.h>
#include <tutti/optim/lion.h>
#include <tutti/optim/muon.h>
#include <tutti/optim/radam.h>
#include <tutti/optim/rmsprop.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/optim/gradients.h>
#include <tutti/tests/test_devices.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>

using namespace tutti;
using namespace tutti::testing;

namespace {

/// Counts how often it was joined; fails when told to.
struct InFlight : PendingGradients {
  int joins = 0;
  bool fails = false;
  void join() override {
    ++joins;
    if (fails) raise<SyncError>("[sync] cpu:1 failed");
  }
};

}  // namespace

TEST_CASE("optimizer: refuses parameters and rates that cannot be") {
  const Tensor p = make_parameter<float>({1});
  CHECK_THROWS_AS(Sgd({}, 0.1), Error);
  CHECK_THROWS_AS(Sgd({Tensor()}, 0.1), Error);
  CHECK_THROWS_WITH_AS(Sgd({p, p}, 0.1), doctest::Contains("twice"), Error);
  CHECK_THROWS_AS(Sgd({p * 2.0}, 0.1), Error);
  CHECK_THROWS_AS(Sgd({Tensor(Array::zeros({2}, DType::i64, test_device()))}, 0.1), DTypeError);
  for (const double rate : {-0.1, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    CHECK_THROWS_AS(Sgd({p}, rate), Error);
    Sgd optimizer({p}, 0.1);
    CHECK_THROWS_AS(optimizer.set_learning_rate(rate), Error);
    CHECK(optimizer.learning_rate() == 0.1);
  }
}

TEST_CASE("optimizer: steps with the gradients of a backward") {
  const Tensor p = make_parameter<float>({1, 2});
  Sgd optimizer({p}, 0.5);
  backward(sum(p * p));
  optimizer.step();
  CHECK(p.to_vector<float>() == std::vector<float>{0, 0});
  CHECK(optimizer.steps() == 1);
  optimizer.zero_grad();
  CHECK_FALSE(p.grad().defined());
}

TEST_CASE("optimizer: skips parameters without a gradient and frozen ones") {
  const Tensor with = make_parameter<float>({1});
  const Tensor without = make_parameter<float>({1});
  Tensor frozen = make_parameter<float>({1});
  AdamW optimizer({with, without, frozen}, 0.1);
  set_gradient<float>(with, {1});
  set_gradient<float>(frozen, {1});
  frozen.set_requires_grad(false);
  optimizer.step();
  optimizer.zero_grad();
  CHECK(with.to_vector<float>()[0] < 1.0F);
  CHECK(without.to_vector<float>()[0] == 1.0F);
  CHECK(frozen.to_vector<float>()[0] == 1.0F);
  const Optimizer::State state = optimizer.state();
  CHECK(state.steps == 1);
  CHECK(state.parameters[0].steps == 1);
  CHECK(state.parameters[0].arrays.size() == 2);
  CHECK(state.parameters[1].steps == 0);
  CHECK(state.parameters[1].arrays.empty());
}

TEST_CASE("optimizer: joins reductions in flight and passes on their failure") {
  const Tensor p = make_parameter<float>({1});
  const auto reduction = std::make_shared<InFlight>();
  p.gradient_slot().pending = reduction;
  set_gradient<float>(p, {1});
  Sgd optimizer({p}, 0.5);
  optimizer.step();
  CHECK(reduction->joins == 1);
  CHECK(p.to_vector<float>()[0] == 0.5F);
  reduction->fails = true;
  CHECK_THROWS_AS(optimizer.step(), SyncError);
  CHECK(p.to_vector<float>()[0] == 0.5F);
  CHECK(optimizer.steps() == 1);
  reduction->fails = false;
}

TEST_CASE("optimizer: a gradient that was never reduced is refused before anything changes") {
  const Tensor first = make_parameter<float>({1});
  const Tensor second = make_parameter<float>({1});
  set_gradient<float>(first, {1});
  set_gradient<float>(second, {1});
  attach(first, "fc1.weight");
  first.gradient_slot().state = GradientState::settled;
  attach(second, "fc2.weight");
  Sgd optimizer({first, second}, 0.5, {.momentum = 0.9});
  CHECK_THROWS_WITH_AS(optimizer.step(), doctest::Contains("\"fc2.weight\" has a local gradient"), Error);
  CHECK(first.to_vector<float>()[0] == 1.0F);
  CHECK(optimizer.steps() == 0);
  CHECK(optimizer.state().parameters[0].steps == 0);
  second.gradient_slot().state = GradientState::settled;
  optimizer.step();
  CHECK(second.to_vector<float>()[0] == 0.5F);
}

TEST_CASE("optimizer: updates one by one are a step, which belongs to the owner while it lives") {
  const Tensor first = make_parameter<float>({1, 2});
  const Tensor second = make_parameter<float>({3});
  const Tensor without = make_parameter<float>({5});
  set_gradient<float>(first, {1, 1});
  set_gradient<float>(second, {2});
  Sgd optimizer({first, second, without}, 0.5, {.momentum = 0.9});
  auto owner = std::make_shared<int>(0);
  optimizer.hand_over(owner);
  CHECK_THROWS_WITH_AS(optimizer.step(), doctest::Contains("during backward"), Error);
  for (const std::size_t position : {1, 2, 0}) optimizer.update_parameter(position);
  optimizer.end_step();
  CHECK(first.to_vector<float>() == std::vector<float>{0.5F, 1.5F});
  CHECK(second.to_vector<float>()[0] == 2.0F);
  CHECK(optimizer.steps() == 1);
  CHECK(optimizer.state().parameters[1].steps == 1);
  CHECK(optimizer.state().parameters[2].steps == 0);
  owner = nullptr;
  optimizer.step();
  CHECK(optimizer.steps() == 2);
}

TEST_CASE("optimizer: a gradient that does not fit is refused") {
  Tensor p = make_parameter<float>({1, 2});
  Sgd optimizer({p}, 0.5);
  GradientSlot& slot = p.gradient_slot();
  slot.state = GradientState::accumulated;
  slot.gradient = Array::zeros({3}, DType::f32, test_device());
  CHECK_THROWS_AS(optimizer.step(), ShapeError);
  slot.gradient = Array::zeros({2}, DType::f64, test_device());
  CHECK_THROWS_AS(optimizer.step(), DTypeError);
  slot.gradient = Array::zeros({2}, DType::f32, test_device(1));
  CHECK_THROWS_AS(optimizer.step(), DeviceError);
  slot.gradient = Array();
  CHECK_THROWS_AS(optimizer.step(), Error);
  p.zero_grad();
}

TEST_CASE("optimizer: a gradient may be a strided view, a parameter may not") {
  const Tensor p(Array::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3}, test_device()), true);
  GradientSlot& slot = p.gradient_slot();
  slot.state = GradientState::accumulated;
  slot.gradient = Array::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2}, test_device()).transpose();
  Sgd optimizer({p}, 1.0);
  optimizer.step();
  CHECK(p.to_vector<float>() == std::vector<float>{0, -1, -2, 2, 1, 0});

  const Tensor view(Array::zeros({3, 2}, DType::f32, test_device()).transpose(), true);
  Sgd other({view}, 1.0);
  view.gradient_slot().gradient = Array::zeros({2, 3}, DType::f32, test_device());
  view.gradient_slot().state = GradientState::accumulated;
  CHECK_THROWS_WITH_AS(other.step(), doctest::Contains("strided"), Error);
}

TEST_CASE("optimizer: state makes a restart exact, on another device too") {
  const std::vector<std::vector<float>> gradients{{1, -2}, {0.5F, 3}, {-1, 0.25F}, {2, 2}};
  const auto run = [&](Optimizer& optimizer, const Tensor& p, std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) {
      set_gradient(p, gradients[i]);
      optimizer.step();
    }
  };
  const Tensor p = make_parameter<float>({1, 2});
  AdamW optimizer({p}, 0.1);
  run(optimizer, p, 0, 2);
  const Optimizer::State saved = optimizer.state();
  const Tensor q = make_parameter<float>(p.to_vector<float>(), test_device(1));
  run(optimizer, p, 2, 4);

  AdamW restarted({q}, 0.7);
  restarted.load_state(saved);
  CHECK(restarted.steps() == 2);
  CHECK(restarted.learning_rate() == 0.1);
  run(restarted, q, 2, 4);
  CHECK(q.to_vector<float>() == p.to_vector<float>());
  CHECK(saved.parameters[0].steps == 2);  // and the saved state did not move with either
}

TEST_CASE("optimizer: a state that does not fit changes nothing") {
  const Tensor p = make_parameter<float>({1, 2});
  Sgd optimizer({p}, 0.1, {.momentum = 0.9});
  set_gradient<float>(p, {1, 1});
  optimizer.step();
  const Optimizer::State good = optimizer.state();
  const auto refused = [&](auto&& change) {
    Optimizer::State bad = optimizer.state();
    bad.steps = 77;
    change(bad);
    CHECK_THROWS_AS(optimizer.load_state(bad), Error);
    CHECK(optimizer.steps() == 1);
    CHECK(optimizer.state().parameters[0].arrays[0].second.to_vector<float>() == std::vector<float>{1, 1});
  };
  refused([](Optimizer::State& s) { s.parameters.clear(); });
  refused([](Optimizer::State& s) { s.steps = -1; });
  refused([](Optimizer::State& s) { s.learning_rates = {-1}; });
  refused([](Optimizer::State& s) { s.learning_rates.clear(); });
  refused([](Optimizer::State& s) { s.parameters[0].group = 1; });
  refused([](Optimizer::State& s) { s.parameters[0].steps = -1; });
  refused([](Optimizer::State& s) { s.parameters[0].arrays.clear(); });
  refused([](Optimizer::State& s) { s.parameters[0].arrays[0].first = "mean"; });
  refused([](Optimizer::State& s) { s.parameters[0].arrays[0].second = Array(); });
  refused([](Optimizer::State& s) { s.parameters[0].arrays[0].second = Array::zeros({3}, DType::f32, test_device()); });
  refused([](Optimizer::State& s) { s.parameters[0].arrays[0].second = Array::zeros({2}, DType::f64, test_device()); });
  optimizer.load_state(good);
  CHECK(optimizer.steps() == 1);
}

TEST_CASE("optimizer: another kind's state is refused by name, though its arrays have the same") {
  const Tensor p(Array::from(std::vector<float>{1, 2, 3, 4}, {2, 2}, test_device()), true);
  AdamW optimizer({p}, 0.1);
  set_gradient<float>(p, {1, 1, 1, 1});
  optimizer.step();
  Optimizer::State state = optimizer.state();
  Lamb lamb({p}, 0.1);
  CHECK_THROWS_WITH_AS(lamb.load_state(state), "[load_state] the state is of the optimizer AdamW, this one is Lamb",
                       Error);
  CHECK_THROWS_WITH_AS(Adam({p}, 0.1).load_state(lamb.state()), doctest::Contains("Lamb, this one is Adam"), Error);
  CHECK(lamb.steps() == 0);
  state.kind.clear();  // from before states had it
  lamb.load_state(state);
  CHECK(lamb.steps() == 1);
  CHECK(lamb.state().kind == "Lamb");
}

TEST_CASE("optimizer: each kind has a name of its own") {
  const std::vector<Tensor> p{Tensor(Array::zeros({2, 2}, DType::f32, test_device()), true)};
  const std::set<std::string> kinds{Sgd(p, 1).kind(),      Adam(p, 1).kind(),  AdamW(p, 1).kind(),   Lamb(p, 1).kind(),
                                    Adagrad(p, 1).kind(),  Lion(p, 1).kind(),  Rmsprop(p, 1).kind(), Muon(p, 1).kind(),
                                    Adadelta(p, 1).kind(), RAdam(p, 1).kind(), Lbfgs(p, 1).kind()};
  CHECK(kinds.size() == 11);
  CHECK_FALSE(kinds.contains(""));
}
