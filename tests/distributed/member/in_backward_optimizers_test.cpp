// SPDX-License-Identifier: Apache-2.0
// Overlap::in_backward: whose parameters are updated by whom.
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/optim/lbfgs.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <memory>
#include <vector>

using namespace tutti;
using namespace tutti::testing;

namespace {

struct Chain : Module {
  Tensor first{Array::full({4}, 0.9, DType::f64, test_device()), true};
  Tensor second{Array::full({4}, 0.7, DType::f64, test_device()), true};
  Tensor third{Array::full({4}, 0.4, DType::f64, test_device()), true};
  Tensor loss() const { return sum(tanh(tanh(first) * second) * third); }
  void visit(MemberVisitor& v) override {
    v.parameter("first", first);
    v.parameter("second", second);
    v.parameter("third", third);
  }
};

}  // namespace

TEST_CASE("in_backward: several optimizers share the parameters; what none of them has is left to others") {
  Chain model;
  GradientSync sync(test_devices(1), {.overlap = Overlap::in_backward});
  auto replicas = sync.replicate(model);
  const std::vector<Tensor> parameters = replicas[0].parameters();
  Sgd first({parameters[0]}, 0.5);
  Sgd second({parameters[1]}, 0.25);
  sync.attach(test_device(), first);
  sync.attach(test_device(), second);
  std::vector<std::vector<double>> before;
  for (const Tensor& parameter : parameters) before.push_back(parameter.to_vector<double>());
  auto step = sync.step(test_device());
  step.backward(replicas[0].loss());
  CHECK(first.steps() == 1);
  CHECK(second.steps() == 1);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::vector<double> gradient = parameters[i].grad().to_vector<double>();
    const double rate = i == 0 ? 0.5 : i == 1 ? 0.25 : 0.0;
    for (std::size_t k = 0; k < gradient.size(); ++k)
      CHECK(parameters[i].to_vector<double>()[k] == doctest::Approx(before[i][k] - rate * gradient[k]));
  }
  REQUIRE(parameters.size() > 2);
  Sgd own({parameters[2]}, 0.5);
  own.step();
  CHECK(parameters[2].to_vector<double>() != before[2]);
}

TEST_CASE("in_backward: an optimizer whose step takes a closure is refused") {
  GradientSync sync(test_devices(1), {.overlap = Overlap::in_backward});
  auto replicas = sync.replicate(Chain());
  Lbfgs optimizer(replicas[0].parameters());
  CHECK_THROWS_WITH_AS(sync.attach(test_device(), optimizer),
                       doctest::Contains("[attach] Lbfgs computes the loss several times in a step"), SyncError);
}

TEST_CASE("in_backward: an optimizer that was destroyed is missed before it is used") {
  Chain model;
  GradientSync sync(test_devices(1), {.overlap = Overlap::in_backward});
  auto replicas = sync.replicate(model);
  {
    Sgd optimizer(replicas[0].parameters(), 0.5);
    sync.attach(test_device(), optimizer);
  }
  CHECK_THROWS_WITH_AS((void)sync.step(test_device()),
                       doctest::Contains(as_tested("attached to cpu:0 has been destroyed")), SyncError);
}

TEST_CASE("in_backward: an optimizer that is destroyed during a step fails it, and is not used") {
  const auto fails = [](const auto& use) {
    GradientSync sync(test_devices(1), {.overlap = Overlap::in_backward, .bucket_bytes = 0});
    auto replicas = sync.replicate(Chain());
    Chain& replica = replicas[0];
    auto optimizer = std::make_unique<Sgd>(replica.parameters(), 0.5);
    sync.attach(test_device(), *optimizer);
    const auto before = replica.first.to_vector<double>();
    const Tensor views[] = {replica.first.detach(), replica.second.detach(), replica.third.detach()};
    auto step = sync.step(test_device());
    use(sync, replica, step, optimizer);
    CHECK(replica.first.to_vector<double>() == before);
    CHECK_THROWS_WITH_AS(step.join(), doctest::Contains(as_tested("attached to cpu:0 has been destroyed")), SyncError);
  };
  using Owned = std::unique_ptr<Sgd>;
  fails([](GradientSync& sync, Chain& replica, Step& step, Owned& optimizer) {
    step.backward_async(replica.loss());  // what has views is updated by the join
    optimizer.reset();
    sync.leave(test_device());
  });
  fails([](GradientSync&, Chain& replica, Step& step, Owned& optimizer) {
    step.backward_async(replica.loss());
    optimizer.reset();
    CHECK_THROWS_AS((void)replica.first.grad(), SyncError);
  });
  fails([](GradientSync&, Chain& replica, Step& step, Owned& optimizer) {
    optimizer.reset();
    CHECK_THROWS_AS(step.backward(replica.loss()), SyncError);
  });
}

TEST_CASE("in_backward: devices must agree on which parameters the group updates") {
  GradientSync sync(test_devices(2), {.overlap = Overlap::in_backward});
  auto replicas = sync.replicate(Chain());
  Sgd all(replicas[0].parameters(), 0.5);
  Sgd some({replicas[1].first, replicas[1].third}, 0.5);
  sync.attach(test_device(), all);
  sync.attach(test_device(1), some);
  const auto errors = errors_of_devices(2, [&](std::size_t d) {
    auto step = sync.step(sync.devices()[d]);
    step.backward(replicas[d].loss());
  });
  for (const std::string& error : errors) {
    CHECK_MESSAGE(error.find(as_tested("parameter \"second\" has an optimizer on cpu:")) != std::string::npos, error);
    CHECK_MESSAGE(error.find(as_tested("and none on cpu:")) != std::string::npos, error);
  }
  CHECK(replicas[0].second.to_vector<double>() == replicas[1].second.to_vector<double>());
}

TEST_CASE("in_backward: a device that follows from the beginning must update what the others do") {
  GradientSync sync(test_devices(2), {.overlap = Overlap::in_backward});
  auto replicas = sync.replicate(Chain());
  Sgd all(replicas[0].parameters(), 0.5);
  Sgd some({replicas[1].first}, 0.5);
  sync.attach(test_device(), all);
  sync.attach(test_device(1), some);
  { (void)sync.step(test_device()).generation(); }  // fails: without a backward
  CHECK_THROWS_WITH_AS(sync.leave(test_device(1), Follow::yes),
                       doctest::Contains(as_tested("\"second\" has an optimizer on cpu:0 and none on cpu:1")),
                       SyncError);
}

TEST_CASE("in_backward: with Absent::subset the trajectory is that of the immediate mode, bit by bit") {
  const auto trained = [](Overlap overlap) {
    GradientSync sync(test_devices(2), {.absent = Absent::subset, .overlap = overlap});
    auto replicas = sync.replicate(Chain());
    run_devices(2, [&](std::size_t d) {
      const Device device = test_device(d);
      Sgd optimizer(replicas[d].parameters(), 0.1, {.momentum = 0.9});
      sync.attach(device, optimizer);
      for (std::size_t i = 0; i < 12; ++i) {
        if (overlap == Overlap::immediate) optimizer.zero_grad();
        auto step = sync.step(device, static_cast<double>(d + 1));
        step.backward((i + d) % 3 == 0 ? sum(square(replicas[d].second)) : replicas[d].loss());
        if (overlap == Overlap::immediate) optimizer.step();
      }
      sync.barrier(device);  // the optimizer lives until the other device has taken its last step
    });
    std::vector<std::vector<double>> values;
    for (Chain& replica : replicas)
      for (const Tensor& parameter : replica.parameters()) values.push_back(parameter.to_vector<double>());
    return values;
  };
  CHECK(trained(Overlap::in_backward) == trained(Overlap::immediate));
}
