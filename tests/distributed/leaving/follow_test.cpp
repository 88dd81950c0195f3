// SPDX-License-Identifier: Apache-2.0
// What a device that left takes from the others' steps, and what it does when it cannot.
#include <tutti/distributed/gradient_sync.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/distributed/sharded/sharded_optimizer.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <memory>
#include <stdexcept>
#include <vector>

using namespace tutti;
using namespace tutti::testing;

namespace {

struct Model : Module {
  Tensor p{Array::from(std::vector<double>{1, 2}, {2}, test_device()), true};
  Tensor q{Array::from(std::vector<double>{3, 4}, {2}, test_device()), true};
  void visit(MemberVisitor& v) override {
    v.parameter("p", p);
    v.parameter("q", q);
  }
  Tensor loss() const { return sum(p) + sum(q); }
};

/// Throws in its n-th update, once.
struct Failing : Sgd {
  using Sgd::Sgd;
  int failing = 0;
  void update(std::span<const Update> updates) override {
    for (const Update& each : updates) {
      if (--failing == 0) throw std::runtime_error("update burnt");
      Sgd::update({&each, 1});
    }
  }
};

std::unique_ptr<Optimizer> sgd(std::vector<Tensor> parameters) {
  return std::make_unique<Sgd>(std::move(parameters), 0.125);
}

void check_equal(std::vector<Model>& replicas, const std::vector<double>& p, const std::vector<double>& q) {
  for (Model& replica : replicas) {
    CHECK(replica.p.to_vector<double>() == p);
    CHECK(replica.q.to_vector<double>() == q);
  }
}

}  // namespace

TEST_CASE("follow: a parameter without a gradient in the followed step has none, whatever the step before left") {
  for (const bool with_loss : {true, false}) {
    GradientSync sync(test_devices(2));
    auto replicas = sync.replicate(Model());
    run_devices(2, [&](std::size_t d) {
      const Device device = sync.devices()[d];
      const auto optimizer = sgd(replicas[d].parameters());
      {
        auto step = sync.step(device);
        step.backward(replicas[d].loss());
      }
      optimizer->step();
      if (d == 0) {
        sync.leave(device, Follow::yes);
        while (sync.follow(device)) {
          optimizer->step();
          optimizer->zero_grad();
        }
        return;
      }
      optimizer->zero_grad();
      {
        auto step = sync.step(device);
        if (with_loss)
          step.backward(sum(replicas[d].p));
        else
          step.synchronize();
      }
      optimizer->step();
      sync.leave(device);
    });
    check_equal(replicas, with_loss ? std::vector{0.75, 1.75} : std::vector{0.875, 1.875}, {2.875, 3.875});
  }
}

TEST_CASE("follow: a share is updated once, if the followed step has no gradient for it") {
  for (const Sharding sharding : {Sharding::optimizer_state, Sharding::gradients}) {
    GradientSync sync(test_devices(2), {.sharding = sharding});
    auto replicas = sync.replicate(Model());
    run_devices(2, [&](std::size_t d) {
      const Device device = sync.devices()[d];
      ShardedOptimizer optimizer(sync, device, sgd);
      {
        auto step = sync.step(device);
        step.backward(replicas[d].loss());
      }
      optimizer.step();
      if (d == 1) {
        optimizer.zero_grad();
        auto step = sync.step(device);
        step.backward(sum(replicas[d].q));  // p is the share of the device that follows
        optimizer.step();
      }
      sync.leave(device, Follow::yes);
      while (sync.follow(device)) optimizer.step();
    });
    check_equal(replicas, {0.875, 1.875}, {2.75, 3.75});
  }
}

TEST_CASE("follow: a device whose update threw follows no more, until the next group's state") {
  GradientSync sync(test_devices(2), {.overlap = Overlap::in_backward, .bucket_bytes = 0});
  auto replicas = sync.replicate(Model());
  Failing follower(replicas[0].parameters(), 0.125);
  Sgd other(replicas[1].parameters(), 0.125);
  sync.attach(test_device(), follower);
  sync.attach(test_device(1), other);
  const auto train = [&] {
    auto step = sync.step(test_device(1));
    step.backward(replicas[1].loss());
  };
  sync.leave(test_device(), Follow::yes);
  for (int i = 0; i < 2; ++i) train();
  follower.failing = 2;
  CHECK_THROWS_WITH((void)sync.follow(test_device()), "update burnt");
  CHECK_THROWS_WITH_AS((void)sync.follow(test_device()),
                       doctest::Contains(as_tested("cpu:0 could not take the result of step 1 (update burnt)")),
                       SyncError);
  sync.fail(test_device(1), std::make_exception_ptr(std::runtime_error("no data")));
  CHECK_THROWS_WITH_AS((void)sync.follow(test_device()), doctest::Contains("no data"), SyncError);
  sync.rejoin(test_device(1), 2);
  train();
  CHECK(sync.follow(test_device()));
  CHECK(follower.steps() == 3);
  check_equal(replicas, {0.625, 1.625}, {2.625, 3.625});
  follower.failing = 1;
  train();
  CHECK_THROWS_WITH((void)sync.follow(test_device()), "update burnt");
  sync.leave(test_device(1));
  CHECK_THROWS_AS((void)sync.follow(test_device()), SyncError);  // not the end that equal replicas reach
}
