// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/backend/error.h>
#include <tutti/optim/adadelta.h>
#include <tutti/optim/adagrad.h>
#include <tutti/optim/adam.h>
#include <tutti/optim/adamw.h>
#include <tutti/optim/lamb.h>
#include <tutti/optim/lion.h>
#include <tutti/optim/muon.h>
#include <tutti/optim/radam.h>
#include <tutti/optim/rmsprop.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/optim/gradients.h>
#include <tutti/tests/test_devices.h>

using namespace tutti;
using namespace tutti::testing;

namespace {

Tensor one(float value) { return make_parameter<float>({value}); }
float value_of(const Tensor& parameter) { return parameter.to_vector<float>()[0]; }

void step(Optimizer& optimizer, float gradient = 1) {
  for (const Tensor& parameter : optimizer.parameters()) set_gradient<float>(parameter, {gradient});
  optimizer.step();
}

}  // namespace

TEST_CASE("groups: each has its learning rate and options") {
  const Tensor weight = one(1);
  const Tensor bias = one(1);
  const Tensor slow = one(1);
  Sgd optimizer({{{weight}, 0.5, {.momentum = 0.5, .weight_decay = 0.5}}, {{bias}, 0.5}, {{slow}, 0.25}});
  CHECK(optimizer.group_count() == 3);
  CHECK(optimizer.group_of(2) == 2);
  CHECK(optimizer.options().momentum == 0.5);
  CHECK(optimizer.options(1).momentum == 0.0);
  step(optimizer);
  CHECK(value_of(weight) == 0.25F);
  CHECK(value_of(bias) == 0.5F);
  CHECK(value_of(slow) == 0.75F);
  optimizer.set_learning_rate(2, 0.5);
  step(optimizer);
  CHECK(value_of(bias) == 0.0F);
  CHECK(value_of(slow) == 0.25F);
  CHECK(optimizer.state().parameters[0].arrays.size() == 1);
  CHECK(optimizer.state().parameters[1].arrays.empty());
  optimizer.set_learning_rate(0.125);
  for (std::size_t group = 0; group < 3; ++group) CHECK(optimizer.learning_rate(group) == 0.125);
}

TEST_CASE("groups: do what as many optimizers do, and restart from their state") {
  const std::vector<Tensor> p{one(1), one(2)};
  const std::vector<Tensor> q{one(1), one(2)};
  AdamW together({{{p[0]}, 0.1, {.weight_decay = 0.1}}, {{p[1]}, 0.2, {.beta1 = 0.5}}});
  AdamW first({q[0]}, 0.1, {.weight_decay = 0.1});
  AdamW second({q[1]}, 0.2, {.beta1 = 0.5});
  for (int i = 0; i < 3; ++i) {
    step(together);
    step(first);
    step(second);
  }
  for (std::size_t i = 0; i < 2; ++i) CHECK(value_of(p[i]) == value_of(q[i]));

  const std::vector<Tensor> r{one(value_of(p[0])), one(value_of(p[1]))};
  AdamW restarted({{{r[0]}, 1, {.weight_decay = 0.1}}, {{r[1]}, 1, {.beta1 = 0.5}}});
  restarted.load_state(together.state());
  CHECK(restarted.learning_rate(1) == 0.2);
  step(together, -2);
  step(restarted, -2);
  for (std::size_t i = 0; i < 2; ++i) CHECK(value_of(p[i]) == value_of(r[i]));

  AdamW otherwise({{{r[0], r[1]}, 1}, {{one(0)}, 1}});
  CHECK_THROWS_AS(otherwise.load_state(together.state()), Error);
  AdamW undivided({r[0], r[1]}, 1);
  CHECK_THROWS_WITH_AS(undivided.load_state(together.state()), doctest::Contains("2 groups, the optimizer has 1"),
                       Error);
  AdamW moved({{{r[0], r[1]}, 1}, {{}, 1}});
  CHECK_THROWS_WITH_AS(moved.load_state(together.state()), doctest::Contains("parameter 1 is of group 0"), Error);
}

TEST_CASE("groups: what cannot be is refused") {
  const Tensor p = one(1);
  using Groups = Sgd::ParameterGroups;
  CHECK_THROWS_WITH_AS(Sgd(Groups{}), doctest::Contains("no parameters"), Error);
  CHECK_THROWS_WITH_AS(Sgd(Groups{{{}, 0.1}}), doctest::Contains("no parameters"), Error);
  CHECK_THROWS_WITH_AS(Sgd(Groups{{{p}, 0.1}, {{p}, 0.1}}), doctest::Contains("listed twice"), Error);
  CHECK_THROWS_WITH_AS(Sgd(Groups{{{p}, 0.1}, {{one(1)}, -0.1}}), doctest::Contains("-0.1"), Error);
  CHECK_THROWS_WITH_AS(Sgd(Groups{{{p}, 0.1}, {{one(1)}, 0.1, {.momentum = 2}}}), doctest::Contains("momentum"), Error);
  Sgd optimizer({p}, 0.1);
  CHECK_THROWS_WITH_AS(optimizer.set_learning_rate(1, 0.1), doctest::Contains("no group 1"), Error);
  CHECK_THROWS_AS(optimizer.learning_rate(1), Error);
  CHECK_THROWS_AS(optimizer.options(1), Error);
  CHECK_THROWS_AS(optimizer.group_of(1), Error);
}

TEST_CASE("groups: every optimizer tells the options of its groups") {
  const Sgd sgd({{{one(1)}, 0.5, {.momentum = 0.5, .nesterov = true}}, {{one(1)}, 0.5, {.weight_decay = 1e-4}}});
  CHECK(sgd.options_of_groups() ==
        "momentum 0.5, dampening 0, weight_decay 0, nesterov true; "
        "momentum 0, dampening 0, weight_decay 0.0001, nesterov false");
  CHECK(AdamW({one(1)}, 0.1).options_of_groups() == "beta1 0.9, beta2 0.999, epsilon 1e-08, weight_decay 0.01");
  const Tensor matrix(Array::zeros({2, 3}, DType::f32, test_device()), true);
  CHECK(Muon({matrix}, 0.1, {.scale = MuonScale::match_rms_adamw}).options_of_groups() ==
        "momentum 0.95, nesterov true, weight_decay 0.1, coefficients 3.4445 -4.775 2.0315, epsilon 1e-07, "
        "iterations 5, scale match_rms_adamw");
  CHECK(Adadelta({one(1)}).options_of_groups() == "rho 0.9, epsilon 1e-06, weight_decay 0");
  CHECK(Adagrad({one(1)}, 0.1).options_of_groups() ==
        "learning_rate_decay 0, weight_decay 0, initial_accumulator_value 0, epsilon 1e-10");
  CHECK(Adam({one(1)}, 0.1, {.amsgrad = true}).options_of_groups() ==
        "beta1 0.9, beta2 0.999, epsilon 1e-08, weight_decay 0, amsgrad true");
  CHECK(Lamb({one(1)}, 0.1).options_of_groups() ==
        "beta1 0.9, beta2 0.999, epsilon 1e-06, weight_decay 0.01, adapt true");
  CHECK(Lion({one(1)}, 0.1).options_of_groups() == "beta1 0.9, beta2 0.99, weight_decay 0");
  CHECK(RAdam({one(1)}, 0.1).options_of_groups() ==
        "beta1 0.9, beta2 0.999, epsilon 1e-08, weight_decay 0, decoupled false");
  CHECK(Rmsprop({one(1)}, 0.1).options_of_groups() ==
        "alpha 0.99, epsilon 1e-08, weight_decay 0, momentum 0, centered false");
}

TEST_CASE("groups: parameters split by rank") {
  const Tensor matrix(Array::zeros({2, 3}, DType::f32, test_device()), true);
  const Tensor scalar(Array::zeros({}, DType::f32, test_device()), true);
  const Tensor kernel(Array::zeros({1, 2, 3, 3}, DType::f32, test_device()), true);
  const ParametersByRank split = split_by_rank({matrix, one(1), kernel, scalar});
  REQUIRE(split.matrices.size() == 2);
  REQUIRE(split.vectors.size() == 2);
  CHECK(split.matrices[1].is_same(kernel));
  CHECK(split.vectors[1].is_same(scalar));
}

TEST_CASE("groups: updates one by one, as during backward, are those of a step") {
  const std::vector<Tensor> p{one(1), one(2), one(3)};
  const std::vector<Tensor> q{one(1), one(2), one(3)};
  const auto groups = [](const std::vector<Tensor>& all) {
    return AdamW::ParameterGroups{{{all[0], all[2]}, 0.1, {.weight_decay = 0.1}}, {{all[1]}, 0.2, {.beta1 = 0.5}}};
  };
  AdamW whole(groups(p));
  AdamW parts(groups(q));
  for (int i = 0; i < 3; ++i) {
    step(whole);
    for (const Tensor& parameter : q) set_gradient<float>(parameter, {1});
    for (const std::size_t position : {2, 0, 1}) parts.update_parameter(position);
    parts.end_step();
  }
  for (std::size_t i = 0; i < 3; ++i) CHECK(value_of(p[i]) == value_of(q[i]));
  CHECK(parts.steps() == 3);
}
