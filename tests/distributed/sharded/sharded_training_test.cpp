// SPDX-License-Identifier: Apache-2.0
// Sharded optimizers do what unsharded ones do, bit by bit, with a share of their memory.
#include <tutti/backend/error.h>
#include <tutti/optim/adagrad.h>
#include <tutti/optim/adam.h>
#include <tutti/optim/lamb.h>
#include <tutti/optim/rmsprop.h>
#include <tutti/tests/distributed/sharded/sharded_training.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <cmath>
#include <utility>

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr int kSteps = 50;

void check_same_trajectory(std::size_t devices, Sharding sharding, const ShardedOptimizer::Factory& factory) {
  BranchingTraining plain(devices, Sharding::none, factory);
  BranchingTraining sharded(devices, sharding, factory);
  for (int step = 0; step < kSteps; step += 10) {
    plain.run(step, step + 10);
    sharded.run(step, step + 10);
    for (std::size_t d = 0; d < devices; ++d) CHECK(values_of(sharded.replicas[d]) == values_of(plain.replicas[0]));
  }
  CHECK(values_of(plain.replicas[0]) != values_of(Branching{}));
  CHECK(difference(sharded.state(), plain.state()) == "");
}

}  // namespace

TEST_CASE("sharded: the trajectory of the unsharded optimizer, bit by bit, on 2, 3 and 8 devices") {
  for (const std::size_t devices : {2, 3, 8})
    for (const Sharding sharding : {Sharding::optimizer_state, Sharding::gradients})
      for (const auto& factory : {sgd(), adamw()}) {
        CAPTURE(devices);
        CAPTURE(static_cast<int>(sharding));
        check_same_trajectory(devices, sharding, factory);
      }
}

TEST_CASE("sharded: groups of parameters, with other options and other state, are those of the unsharded optimizer") {
  const auto group_of = [](const std::string& name) { return name.ends_with("bias") || name == "scale" ? 1U : 0U; };
  const auto options = [](std::size_t group) {
    return group == 0 ? SgdOptions{.momentum = 0.9, .weight_decay = 0.01} : SgdOptions{};
  };
  const ShardedOptimizer::Groups groups{2, group_of, [&](std::size_t group, std::vector<Tensor> pieces) {
                                          const double rate = group == 0 ? 0.05 : 0.1;
                                          return std::make_unique<Sgd>(std::move(pieces), rate, options(group));
                                        }};
  BranchingTraining whole(3, Sharding::none, sgd());
  for (std::size_t d = 0; d < 3; ++d) {
    Sgd::ParameterGroups parameters{{{}, 0.05, options(0)}, {{}, 0.1, options(1)}};
    for (const auto& [name, parameter] : whole.replicas[d].named_parameters())
      parameters[group_of(name)].parameters.push_back(parameter);
    whole.plain[d] = std::make_unique<Sgd>(parameters);
  }
  for (const Sharding sharding : {Sharding::optimizer_state, Sharding::gradients}) {
    BranchingTraining training(3, sharding, sgd());
    for (std::size_t d = 0; d < 3; ++d) {
      training.sharded[d] = nullptr;
      training.sharded[d] = std::make_unique<ShardedOptimizer>(*training.sync, training.devices[d], groups);
    }
    training.run(0, 5);
    const Optimizer::State saved = training.state();
    CHECK(saved.learning_rates == std::vector<double>{0.05, 0.1});
    CHECK(saved.parameters[1].group == 1);
    CHECK(saved.parameters[1].arrays.empty());
    CHECK(saved.parameters[0].arrays.size() == 1);
    for (std::size_t d = 0; d < 3; ++d) training.sharded[d]->set_learning_rate(1, 0.7);
    CHECK(training.sharded[0]->learning_rate(1) == 0.7);
    CHECK_THROWS_AS(training.sharded[0]->set_learning_rate(2, 0.7), SyncError);
    training.load_state(saved);
    training.run(5, 10);
    if (sharding == Sharding::optimizer_state) whole.run(0, 10);
    CHECK(values_of(training.replicas[1]) == values_of(whole.replicas[0]));

    Optimizer::State misfit = training.state();
    misfit.parameters[0].group = 1;
    CHECK_THROWS_WITH_AS(training.sharded[0]->load_state(misfit), doctest::Contains("\"in\" is of group 0"), Error);
    misfit.learning_rates.pop_back();
    CHECK_THROWS_WITH_AS(training.sharded[0]->load_state(misfit), doctest::Contains("of 1 groups"), Error);
  }
}

TEST_CASE("sharded: the devices agree on whether gradients are finite, whoever has the one that is not") {
  for (const Sharding sharding : {Sharding::optimizer_state, Sharding::gradients})
    for (const bool finite : {true, false}) {
      BranchingTraining plain(3, Sharding::none, sgd());
      BranchingTraining training(3, sharding, sgd());
      run_devices(3, [&](std::size_t d) {
        const Device device = training.devices[d];
        const Tensor scale(Array::full({}, !finite && d == 1 ? 1e39 : 256.0, DType::f32, device));
        for (BranchingTraining* each : {&plain, &training}) {
          auto step = each->sync->step(device);
          step.backward(each->replicas[d].loss(1, device) * scale);
        }
        const std::vector<Tensor> parameters = plain.replicas[d].parameters();
        CHECK(GradientScaler({.initial_scale = 256}).unscale(parameters) == finite);
        CHECK(training.sharded[d]->unscale_grad(256) == finite);
        if (!finite) return;
        clip_grad_value(parameters, 0.01);
        plain.plain[d]->step();
        training.sharded[d]->clip_grad_value(0.01);
        training.sharded[d]->step();
      });
      CHECK((values_of(plain.replicas[2]) == values_of(Branching{})) == !finite);
      CHECK(values_of(training.replicas[2]) == values_of(plain.replicas[2]));
    }
}

TEST_CASE("sharded: a norm that is not finite may drop the gradients on all devices") {
  for (const Sharding sharding : {Sharding::optimizer_state, Sharding::gradients}) {
    BranchingTraining training(2, sharding, adamw());
    run_devices(2, [&](std::size_t d) {
      const Device device = training.devices[d];
      auto step = training.sync->step(device);
      const Tensor scale(Array::full({}, d == 1 ? 1e39 : 1.0, DType::f32, device));
      step.backward(training.replicas[d].loss(1, device) * scale);
      CHECK_FALSE(std::isfinite(training.sharded[d]->clip_grad_norm(1.0, {.drop_if_non_finite = true})));
      training.sharded[d]->step();
    });
    CHECK(values_of(training.replicas[0]) == values_of(Branching{}));
  }
}

TEST_CASE("sharded: optimizers that look at whole parameters are refused") {
  GradientSync sync(test_devices(1), {.sharding = Sharding::gradients});
  auto replicas = sync.replicate(Branching{});
  const ShardedOptimizer::Factory lamb = [](std::vector<Tensor> pieces) {
    return std::make_unique<Lamb>(std::move(pieces), 0.1);
  };
  CHECK_THROWS_WITH_AS(ShardedOptimizer(sync, test_device(), lamb), doctest::Contains("leave it unsharded"), SyncError);
}

TEST_CASE("sharded: groups that cannot be are refused") {
  GradientSync sync(test_devices(1), {.sharding = Sharding::gradients});
  auto replicas = sync.replicate(Branching{});
  const auto make = [](std::size_t, std::vector<Tensor> pieces) { return sgd()(std::move(pieces)); };
  CHECK_THROWS_WITH_AS(
      ShardedOptimizer(sync, test_device(), ShardedOptimizer::Groups{2, [](const std::string&) { return 2; }, make}),
      doctest::Contains("group 2, there are 2"), SyncError);
  const ShardedOptimizer::Factory divided = [](std::vector<Tensor> pieces) {
    return std::make_unique<Sgd>(Sgd::ParameterGroups{{std::move(pieces), 0.1}, {{}, 0.2}});
  };
  CHECK_THROWS_WITH_AS(ShardedOptimizer(sync, test_device(), divided), doctest::Contains("2 groups of its own"),
                       SyncError);
}

TEST_CASE("sharded: other rules, and state that starts with a value") {
  check_same_trajectory(3, Sharding::gradients, [](std::vector<Tensor> pieces) {
    return std::make_unique<Adam>(std::move(pieces), 0.01, AdamOptions{.weight_decay = 0.01, .amsgrad = true});
  });
  check_same_trajectory(2, Sharding::optimizer_state, [](std::vector<Tensor> pieces) {
    return std::make_unique<Rmsprop>(std::move(pieces), 0.01, RmspropOptions{.momentum = 0.5, .centered = true});
  });
  check_same_trajectory(3, Sharding::gradients, [](std::vector<Tensor> pieces) {
    return std::make_unique<Adagrad>(std::move(pieces), 0.05, AdagradOptions{.initial_accumulator_value = 0.1});
  });
}

TEST_CASE("sharded: one device, and the reductions sum and mean") {
  check_same_trajectory(1, Sharding::gradients, adamw());
  for (const GradientReduction reduction : {GradientReduction::sum, GradientReduction::mean}) {
    BranchingTraining plain(3, Sharding::none, sgd(), {.reduction = reduction});
    BranchingTraining sharded(3, Sharding::gradients, sgd(), {.reduction = reduction, .consistency_every = 2});
    plain.run(0, 12);
    sharded.run(0, 12);
    CHECK(values_of(sharded.replicas[2]) == values_of(plain.replicas[2]));
  }
}

TEST_CASE("sharded: with reductions off each device updates its share by its own gradients") {
  const auto train = [](BranchingTraining& training) {
    training.sync->set_reductions_enabled(false);
    training.run(1, 2);
  };
  BranchingTraining plain(2, Sharding::none, sgd());
  train(plain);
  for (const Sharding sharding : {Sharding::optimizer_state, Sharding::gradients}) {
    BranchingTraining sharded(2, sharding, sgd());
    train(sharded);
    const auto parameters = sharded.replicas[0].parameters();
    for (std::uint32_t id = 0; id < parameters.size(); ++id)
      for (const ShardPlan::Piece& piece : sharded.sharded[0]->shards().pieces_of({id})) {
        const auto whole = plain.replicas[piece.owner].parameters()[id].to_vector<float>();
        const auto gathered = parameters[id].to_vector<float>();
        CHECK(std::equal(gathered.begin() + piece.begin, gathered.begin() + piece.end, whole.begin() + piece.begin));
      }
  }
}

TEST_CASE("sharded: more devices than elements, and an empty parameter") {
  struct Tiny : Module {
    Tensor two{Array::from(std::vector<double>{1, 2}, {2}, test_device()), true};
    Tensor none{Array::zeros({0}, DType::f64, test_device()), true};
    void visit(MemberVisitor& v) override {
      v.parameter("two", two);
      v.parameter("none", none);
    }
  };
  for (const Sharding sharding : {Sharding::optimizer_state, Sharding::gradients}) {
    GradientSync sync(test_devices(4), {.sharding = sharding});
    auto replicas = sync.replicate(Tiny{});
    std::vector<std::unique_ptr<ShardedOptimizer>> optimizers;
    for (const Device device : sync.devices())
      optimizers.push_back(std::make_unique<ShardedOptimizer>(sync, device, adamw()));
    run_devices(4, [&](std::size_t d) {
      auto step = sync.step(sync.devices()[d]);
      step.backward(sum(square(replicas[d].two)) + sum(replicas[d].none));
      optimizers[d]->step();
      CHECK(optimizers[d]->state().parameters[0].arrays.size() == 2);
      CHECK(optimizers[d]->learning_rate() == 0.01);
    });
    for (const Tiny& replica : replicas)
      CHECK(replica.two.to_vector<double>()[1] == doctest::Approx(1.99 - 2 * 0.01 * 0.01).epsilon(1e-6));
    CHECK(optimizers[3]->state_bytes() == 0);
  }
}

TEST_CASE("sharded: each device keeps its share of the optimizer's state only") {
  for (const std::size_t devices : {2, 3, 8}) {
    BranchingTraining plain(devices, Sharding::none, adamw());
    BranchingTraining sharded(devices, Sharding::optimizer_state, adamw());
    plain.run(1, 4);
    sharded.run(1, 4);
    const std::size_t whole = plain.plain[0]->state_bytes();
    std::size_t together = 0;
    for (const auto& optimizer : sharded.sharded) {
      together += optimizer->state_bytes();
      CHECK(optimizer->state_bytes() <= whole / devices + 2 * 64);  // two arrays, each to a cache line
    }
    CHECK(together == whole);
  }
}

TEST_CASE("sharded: local accumulation counts") {
  const auto train = [](BranchingTraining& training) {
    run_devices(2, [&](std::size_t d) {
      const Device device = training.devices[d];
      auto step = training.sync->step(device, 3.0);
      {
        auto local = step.no_sync(1.0 + device.index);
        backward(training.replicas[d].loss(1, device));
      }
      step.backward(training.replicas[d].loss(2, device));
      training.update(d);
    });
  };
  BranchingTraining plain(2, Sharding::none, sgd());
  BranchingTraining sharded(2, Sharding::gradients, sgd());
  train(plain);
  train(sharded);
  CHECK(values_of(sharded.replicas[1]) == values_of(plain.replicas[1]));
}

TEST_CASE("sharded: the learning rate may change, and parameters may be loaded") {
  const auto train = [](BranchingTraining& training) {
    training.run(0, 3);
    for (Branching& replica : training.replicas) {
      Array other = Branching::numbers({13, 37}, 99, test_device()).to(replica.left.device()).copy();
      replica.left.set_array(other);
    }
    for (const auto& optimizer : training.plain) optimizer->set_learning_rate(0.5);
    for (const auto& optimizer : training.sharded) optimizer->set_learning_rate(0.5);
    training.run(3, 6);
  };
  BranchingTraining plain(3, Sharding::none, sgd());
  BranchingTraining sharded(3, Sharding::optimizer_state, sgd());
  train(plain);
  train(sharded);
  CHECK(values_of(sharded.replicas[1]) == values_of(plain.replicas[1]));
  CHECK_THROWS_AS(sharded.sharded[0]->set_learning_rate(-1), Error);
}

TEST_CASE("sharded: clipping uses the norm of all shares") {
  for (const Sharding sharding : {Sharding::optimizer_state, Sharding::gradients}) {
    BranchingTraining plain(3, Sharding::none, sgd());
    BranchingTraining sharded(3, sharding, sgd());
    run_devices(3, [&](std::size_t d) {
      for (int step = 0; step < 6; ++step) {
        plain.backward(d, step);
        sharded.backward(d, step);
        const double max_norm = step % 2 == 0 ? 0.01 : 1e6;
        const double norm = clip_grad_norm(plain.replicas[d].parameters(), max_norm);
        CHECK(sharded.sharded[d]->clip_grad_norm(max_norm) == doctest::Approx(norm).epsilon(1e-6));
        plain.update(d);
        sharded.update(d);
      }
    });
    const auto expected = values_of(plain.replicas[0]);
    for (const Branching& replica : sharded.replicas) {
      const auto values = values_of(replica);
      for (std::size_t i = 0; i < values.size(); ++i) REQUIRE(std::abs(values[i] - expected[i]) < 1e-6F);
    }
  }
}

TEST_CASE("sharded: a checkpoint goes from sharded to unsharded, to other numbers of devices, and back") {
  BranchingTraining reference(2, Sharding::none, adamw());
  reference.run(0, 10);
  BranchingTraining two(2, Sharding::gradients, adamw());
  two.run(0, 10);
  const Optimizer::State state = two.state();
  CHECK(difference(state, reference.state()) == "");

  BranchingTraining unsharded(2, Sharding::none, adamw(), {}, two.replicas[1]);
  unsharded.load_state(state);
  BranchingTraining sharded(2, Sharding::optimizer_state, adamw(), {}, two.replicas[0]);
  sharded.load_state(unsharded.state());
  BranchingTraining three(3, Sharding::gradients, adamw(), {}, two.replicas[0]);
  three.load_state(state);
  CHECK(difference(three.state(), state) == "");
  reference.run(10, 20);
  unsharded.run(10, 20);
  sharded.run(10, 20);
  CHECK(values_of(unsharded.replicas[0]) == values_of(reference.replicas[0]));
  CHECK(values_of(sharded.replicas[1]) == values_of(reference.replicas[0]));
  CHECK(difference(sharded.state(), unsharded.state()) == "");
}

TEST_CASE("sharded: a state that does not fit is refused, and changes nothing") {
  BranchingTraining training(2, Sharding::optimizer_state, adamw());
  training.run(1, 4);
  const Optimizer::State good = training.state();
  Optimizer::State fewer = good;
  fewer.parameters.pop_back();
  CHECK_THROWS_WITH_AS(training.sharded[0]->load_state(fewer), doctest::Contains("6 parameters, the group has 7"),
                       Error);
  Optimizer::State other_shape = good;
  other_shape.parameters[6].arrays[1].second = Array::zeros({2}, DType::f32, test_device());
  CHECK_THROWS_WITH_AS(training.sharded[0]->load_state(other_shape),
                       doctest::Contains("\"scale\" is [], its square [2]"), ShapeError);
  Optimizer::State other_names = good;
  other_names.parameters[0].arrays.pop_back();
  CHECK_THROWS_WITH_AS(training.sharded[0]->load_state(other_names), doctest::Contains("\"in\" has other state arrays"),
                       Error);
  CHECK(difference(training.state(), good) == "");
}
