// SPDX-License-Identifier: Apache-2.0
// Devices that left and follow, when the group fails and forms again without them.
#include <tutti/distributed/gradient_sync.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/distributed/sharded/sharded_optimizer.h>
#include <tutti/distributed/sync_server.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <vector>

using namespace tutti;
using namespace tutti::testing;

namespace {

Tensor values(std::vector<double> numbers) {
  const auto count = static_cast<std::int64_t>(numbers.size());
  return Tensor(Array::from(numbers, {count}, test_device()), true);
}

/// The gradient of `late` is final first; that of `early` is the input.
struct Model : Module {
  Tensor early = values({1, 2});
  Tensor late = values({3, 4});
  void visit(MemberVisitor& v) override {
    v.parameter("early", early);
    v.parameter("late", late);
  }
  Tensor loss(double input) const {
    const Tensor x(Array::from(std::vector<double>{input, 1}, {2}, early.device()));
    return sum(early * x) + sum(late * late);
  }
};

class Group {
 public:
  explicit Group(SyncOptions options, std::size_t devices = 3)
      : devices_(test_devices(devices)), sync(devices_, quick(std::move(options))), replicas(sync.replicate(Model())) {
    for (std::size_t d = 0; d < devices; ++d) {
      if (sync.server().options().sharding != Sharding::none) {
        sharded.push_back(std::make_unique<ShardedOptimizer>(sync, devices_[d], [](std::vector<Tensor> pieces) {
          return std::make_unique<Sgd>(std::move(pieces), 0.125, SgdOptions{.momentum = 0.5});
        }));
        continue;
      }
      optimizers.push_back(std::make_unique<Sgd>(replicas[d].parameters(), 0.125, SgdOptions{.momentum = 0.5}));
      sync.attach(devices_[d], *optimizers[d]);
    }
  }
  Device device(std::size_t d) const { return devices_[d]; }
  void update(std::size_t d) {
    if (!sharded.empty()) {
      sharded[d]->step();
      sharded[d]->zero_grad();
    } else if (sync.server().options().overlap != Overlap::in_backward) {
      optimizers[d]->step();
      optimizers[d]->zero_grad();
    }
  }
  /// One step of the devices but the first, which follows.
  std::vector<std::string> step(double input) {
    return fetch(input, [this](std::size_t d) { update(d); });
  }
  /// The same with something else in place of the update.
  template <class Use> std::vector<std::string> fetch(double input, Use use) {
    return errors_of_devices(devices_.size(), [&](std::size_t d) {
      if (d == 0) {
        if (sync.follow(devices_[0])) use(0);
        return;
      }
      auto step = sync.step(devices_[d]);
      step.backward(replicas[d].loss(d == 1 ? input : 1.0));
      use(d);
    });
  }
  void rejoin(std::int64_t last_step_applied) {
    run_devices(devices_.size(), [&](std::size_t d) {
      if (d > 0) sync.rejoin(devices_[d], last_step_applied);
    });
  }
  void check_equal() {
    for (Model& replica : replicas) {
      CHECK(replica.early.to_vector<double>() == replicas[1].early.to_vector<double>());
      CHECK(replica.late.to_vector<double>() == replicas[1].late.to_vector<double>());
    }
  }

 private:
  static SyncOptions quick(SyncOptions options) {
    options.fail_after = std::chrono::seconds(20);
    return options;
  }
  std::vector<Device> devices_;

 public:
  GradientSync sync;
  std::vector<Model> replicas;
  std::vector<std::unique_ptr<Sgd>> optimizers;
  std::vector<std::unique_ptr<ShardedOptimizer>> sharded;
};

void check_all_well(const std::vector<std::string>& errors) {
  for (const std::string& error : errors) CHECK(error.empty());
}

}  // namespace

TEST_CASE("follow after failure: a sharded device that left takes part in the next group") {
  for (const Sharding sharding : {Sharding::optimizer_state, Sharding::gradients}) {
    Group group({.sharding = sharding});
    group.sync.leave(group.device(0), Follow::yes);
    check_all_well(group.step(1));
    const auto errors = errors_of_devices(3, [&](std::size_t d) {
      if (d == 0) group.sync.follow(group.device(0));
      auto step = group.sync.step(group.device(d));
      if (d == 1) throw std::runtime_error("no data");
      step.backward(group.replicas[d].loss(1));
    });
    for (const std::string& error : errors) CHECK_FALSE(error.empty());
    group.rejoin(1);
    check_all_well(group.step(1));
    check_all_well(group.step(2));
    group.check_equal();
  }
}

TEST_CASE("follow after failure: a share is not updated from a result that the others have gone back behind") {
  for (const Sharding sharding : {Sharding::optimizer_state, Sharding::gradients}) {
    Group reference({.sharding = sharding});
    reference.sync.leave(reference.device(0), Follow::yes);
    Group group({.sharding = sharding});
    group.sync.leave(group.device(0), Follow::yes);
    check_all_well(group.fetch(1, [](std::size_t) {}));
    group.sync.fail(group.device(1), std::make_exception_ptr(std::runtime_error("disk full")));
    group.rejoin(0);
    ShardedOptimizer& share = *group.sharded[0];
    for (const auto& call : {std::function<void()>([&] { share.step_async(); }),
                             std::function<void()>([&] { (void)share.clip_grad_norm(1.0); })})
      CHECK_THROWS_WITH_AS(
          call(), doctest::Contains(as_tested("cpu:0 is of group 1, but group 2 has formed: follow first")), SyncError);
    CHECK(share.whole());
    CHECK(share.steps() == 0);
    for (const double input : {2.0, 3.0}) {
      check_all_well(reference.step(input));
      check_all_well(group.step(input));
    }
    group.check_equal();
    CHECK(group.replicas[0].early.to_vector<double>() == reference.replicas[0].early.to_vector<double>());
    CHECK(group.replicas[0].late.to_vector<double>() == reference.replicas[0].late.to_vector<double>());
  }
}

TEST_CASE("follow after failure: shares that all devices have posted are whole before their follower has joined them") {
  Group group({.sharding = Sharding::optimizer_state});
  group.sync.leave(group.device(0), Follow::yes);
  check_all_well(group.fetch(1, [&](std::size_t d) {
    if (d == 0)
      group.sharded[0]->step_async();
    else
      group.sharded[d]->step();
    group.sharded[d]->zero_grad();
  }));
  group.sync.fail(group.device(1), std::make_exception_ptr(std::runtime_error("no data")));
  group.rejoin(1);
  check_all_well(group.step(2));
  group.check_equal();
}

TEST_CASE("follow after failure: a share that its follower alone has updated tears the step") {
  Group group({.sharding = Sharding::optimizer_state});
  group.sync.leave(group.device(0), Follow::yes);
  check_all_well(group.fetch(1, [&](std::size_t d) {
    if (d == 0) group.sharded[0]->step_async();
  }));
  group.sync.fail(group.device(1), std::make_exception_ptr(std::runtime_error("no data")));
  CHECK_THROWS_WITH(group.rejoin(0), doctest::Contains(as_tested("the parameters of cpu:0 are between steps 0 and 1")));
}

TEST_CASE("follow after failure: a sharded optimizer may end while the others form the next group") {
  for (int round = 0; round < 8; ++round) {
    Group group({.sharding = Sharding::optimizer_state});
    group.sync.leave(group.device(0), Follow::yes);
    group.sync.fail(group.device(1), std::make_exception_ptr(std::runtime_error("no data")));
    check_all_well(errors_of_devices(3, [&](std::size_t d) {
      if (d == 0)
        group.sharded[0].reset();
      else
        group.sync.rejoin(group.device(d), 0);
    }));
  }
}

TEST_CASE("follow after failure: updates of a failed backward reach devices that follow") {
  Group group({.overlap = Overlap::in_backward, .bucket_bytes = 0, .check_finite = true});
  group.sync.leave(group.device(0), Follow::yes);
  check_all_well(group.step(1));
  for (const std::string& error : group.step(std::numeric_limits<double>::infinity())) CHECK_FALSE(error.empty());
  group.rejoin(1);
  check_all_well(group.step(1));
  group.check_equal();
}

TEST_CASE("follow after failure: a step that the others have gone back behind is gone for those who follow") {
  Group group({}, 2);
  group.sync.leave(group.device(0), Follow::yes);
  {
    auto step = group.sync.step(group.device(1));
    step.backward(group.replicas[1].loss(1));
  }
  group.sync.fail(group.device(1), std::make_exception_ptr(std::runtime_error("disk full")));
  group.sync.rejoin(group.device(1), 0);
  check_all_well(group.step(1));
  group.check_equal();
}

TEST_CASE("follow after failure: double buffering, where a released step may not be applied by anybody") {
  Group group({.overlap = Overlap::double_buffered});
  group.sync.leave(group.device(0), Follow::yes);
  const auto backward = [&](double input) {
    return errors_of_devices(3, [&](std::size_t d) {
      if (d == 0) return;
      auto step = group.sync.step(group.device(d));
      if (input < 0 && d == 1) throw std::runtime_error("no data");
      step.backward(group.replicas[d].loss(input));
      if (!step.skipped()) group.update(d);
    });
  };
  check_all_well(backward(1));
  check_all_well(backward(2));
  (void)backward(-1);  // cpu:2 may have used step 2 before it hears of the failure, or not
  run_devices(3, [&](std::size_t d) {
    if (d > 0) group.sync.rejoin(group.device(d), group.optimizers[d]->steps());
  });
  check_all_well(backward(3));
  run_devices(3, [&](std::size_t d) {
    if (d == 0) return;
    if (group.sync.flush(group.device(d))) group.update(d);
    group.sync.leave(group.device(d));
  });
  while (group.sync.follow(group.device(0))) group.update(0);
  group.check_equal();
}

TEST_CASE("follow after failure: a device that left enters the next group's collectives") {
  Group group({});
  group.sync.leave(group.device(0));
  group.sync.fail(group.device(1), std::make_exception_ptr(std::runtime_error("no data")));
  group.rejoin(0);
  check_all_well(errors_of_devices(3, [&](std::size_t d) { group.sync.barrier(group.device(d)); }));
  const auto error = errors_of_devices(1, [&](std::size_t) { group.sync.rejoin(group.device(0), 0); }).front();
  CHECK_MESSAGE(error.find(as_tested("cpu:0 has left")) != std::string::npos, error);
}

TEST_CASE("follow after failure: a device whose step failed may leave and follow") {
  Group group({}, 2);
  group.sync.fail(group.device(0), std::make_exception_ptr(std::runtime_error("no data")));
  group.sync.leave(group.device(0), Follow::yes);
  group.sync.rejoin(group.device(1), 0);
  check_all_well(group.step(1));
  group.check_equal();
}

TEST_CASE("rejoin: every attached optimizer's state travels") {
  Group group({}, 2);
  std::vector<std::unique_ptr<Sgd>> late;
  GradientSync sync(test_devices(2));
  auto replicas = sync.replicate(Model());
  std::vector<std::unique_ptr<Sgd>> early;
  for (std::size_t d = 0; d < 2; ++d) {
    early.push_back(std::make_unique<Sgd>(std::vector<Tensor>{replicas[d].early}, 0.1, SgdOptions{.momentum = 0.9}));
    late.push_back(std::make_unique<Sgd>(std::vector<Tensor>{replicas[d].late}, 0.1, SgdOptions{.momentum = 0.9}));
    sync.attach(test_device(d), *early[d]);
    sync.attach(test_device(d), *late[d]);
    CHECK_THROWS_WITH_AS(sync.attach(test_device(d), *late[d]), doctest::Contains("this optimizer already"), SyncError);
  }
  const auto train = [&](bool second_updates) {
    run_devices(2, [&](std::size_t d) {
      auto step = sync.step(test_device(d));
      step.backward(replicas[d].loss(1));
      if (d == 0 || second_updates)
        for (Sgd* optimizer : {early[d].get(), late[d].get()}) optimizer->step();
      replicas[d].zero_grad();
    });
  };
  train(true);
  train(false);
  sync.fail(test_device(1), std::make_exception_ptr(std::runtime_error("disk full")));
  run_devices(2, [&](std::size_t d) { sync.rejoin(test_device(d), d == 0 ? 2 : 1); });
  train(true);
  CHECK(replicas[0].early.to_vector<double>() == replicas[1].early.to_vector<double>());
  CHECK(replicas[0].late.to_vector<double>() == replicas[1].late.to_vector<double>());
}
