// SPDX-License-Identifier: Apache-2.0
// Who is told of what went wrong, by which name, and what is refused before it can go wrong.
#include <tutti/distributed/gradient_sync.h>

#include <tutti/autodiff/custom_function.h>
#include <tutti/backend/error.h>
#include <tutti/distributed/collectives/engine_task.h>
#include <tutti/distributed/communicator.h>
#include <tutti/distributed/engines/local/local_communicator.h>
#include <tutti/distributed/sharded/sharded_optimizer.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/two_branches.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>

using namespace tutti;
using namespace tutti::testing;
using namespace std::chrono_literals;

namespace {

std::exception_ptr burnt(const char* what) { return std::make_exception_ptr(std::runtime_error(what)); }

Tensor loss_of(const TwoBranches& replica) { return use(replica.left, 1.0) + use(replica.right, 2.0); }

std::unique_ptr<Optimizer> make_sgd(std::vector<Tensor> parameters) {
  return std::make_unique<Sgd>(std::move(parameters), 0.125);
}

using Sharded = std::vector<std::unique_ptr<ShardedOptimizer>>;

Sharded sharded_optimizers(GradientSync& sync, const ShardedOptimizer::Factory& factory) {
  Sharded optimizers;
  for (const Device device : sync.devices())
    optimizers.push_back(std::make_unique<ShardedOptimizer>(sync, device, factory));
  return optimizers;
}

template <class T> void backward_on_both(GradientSync& sync, const T& replicas) {
  auto first = sync.step(test_device());
  auto second = sync.step(test_device(1));
  first.backward_async(loss_of(replicas[0]));
  second.backward_async(loss_of(replicas[1]));
  join_all(first, second);
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

TEST_CASE("failure reports: a check of the replicas that is refused leaves nobody waiting") {
  GradientSync sync(test_devices(3), {.fail_after = 300ms});
  const auto replicas = sync.replicate(TwoBranches{});
  const Device both[] = {test_device(), test_device(1)};
  {
    auto open = sync.step(test_device(1));
    CHECK_THROWS_WITH_AS(sync.check_consistency(both), doctest::Contains(as_tested("cpu:1")), SyncError);
    open.synchronize_async();
  }
  CHECK_THROWS_WITH_AS(sync.check_consistency(test_device()), doctest::Contains(as_tested("cpu:2")),
                       SyncError);  // at the deadline
}

TEST_CASE("failure reports: who asks for a second check before the first is answered is refused") {
  GradientSync sync(test_devices(2), {.fail_after = 60s});
  const auto replicas = sync.replicate(TwoBranches{});
  std::string first;
  std::thread waiting([&] {
    try {
      sync.check_consistency(test_device());
    } catch (const std::exception& error) {
      first = error.what();
    }
  });
  std::string second;
  for (const auto start = std::chrono::steady_clock::now(); second.empty() && seconds_since(start) < 30.0;) {
    std::this_thread::sleep_for(20ms);
    const Device twice[] = {test_device()};
    if (sync.recent_events().find("digest") == std::string::npos) continue;
    try {
      sync.check_consistency(twice);
    } catch (const SyncError& error) {
      second = error.what();
    }
  }
  CHECK_MESSAGE(second.find(as_tested("cpu:0 asked for a check")) != std::string::npos, second);
  sync.check_consistency(test_device(1));
  waiting.join();
  CHECK(first.empty());
}

TEST_CASE("failure reports: a step that is refused for what its own thread still owes has not failed") {
  GradientSync sync(test_devices(2), {.sharding = Sharding::optimizer_state});
  const auto replicas = sync.replicate(TwoBranches{});
  const Sharded optimizers = sharded_optimizers(sync, make_sgd);
  backward_on_both(sync, replicas);
  optimizers[0]->step_async();
  CHECK_THROWS_AS((void)sync.step(test_device()), SyncError);
  optimizers[1]->step_async();
  optimizers[0]->join();
  optimizers[1]->join();
  for (const auto& optimizer : optimizers) optimizer->zero_grad();
  CHECK_NOTHROW(backward_on_both(sync, replicas));
}

TEST_CASE("failure reports: an update of a share that throws is told to all at once, with its cause") {
  struct Burning : Sgd {
    using Sgd::Sgd;
    void update(std::span<const Update> updates) override {
      for (const Update& each : updates)  // of one element: the prototype's
        if (each.parameter.device() == test_device(1) && each.parameter.size() > 1)
          throw std::runtime_error("update burnt");
    }
  };
  GradientSync sync(test_devices(2), {.sharding = Sharding::optimizer_state, .fail_after = 60s});
  const auto replicas = sync.replicate(TwoBranches{});
  const Sharded optimizers = sharded_optimizers(
      sync, [](std::vector<Tensor> parameters) { return std::make_unique<Burning>(std::move(parameters), 0.125); });
  const auto start = std::chrono::steady_clock::now();
  const auto errors = errors_of_devices(2, [&](std::size_t d) {
    {
      auto step = sync.step(test_device(d));
      step.backward(loss_of(replicas[d]));
    }
    optimizers[d]->step();
  });
  CHECK_MESSAGE(errors[0].find("update burnt") != std::string::npos, errors[0]);
  CHECK_MESSAGE(errors[0].find(as_tested("cpu:1")) != std::string::npos, errors[0]);
  CHECK(seconds_since(start) < 30.0);
}

TEST_CASE("failure reports: a device that failed in the last group and follows is heard in the next") {
  GradientSync sync(test_devices(2), {.sharding = Sharding::optimizer_state, .fail_after = 60s});
  const auto replicas = sync.replicate(TwoBranches{});
  const Sharded optimizers = sharded_optimizers(sync, make_sgd);
  sync.fail(test_device(), burnt("no data"));
  sync.leave(test_device(), Follow::yes);
  sync.rejoin(test_device(1), 0);
  sync.fail(test_device(), burnt("the disk is full"));
  CHECK_THROWS_WITH_AS((void)sync.step(test_device(1)), doctest::Contains("the disk is full"), SyncError);
}

TEST_CASE("failure reports: a micro-batch that fails midway cannot be left out of the step") {
  GradientSync sync(test_devices(1), {.reduction = GradientReduction::weighted_mean});
  const auto replicas = sync.replicate(TwoBranches{});
  const auto fails = [](const Tensor& x) {
    return custom_function(
        "failing", {x}, [](std::span<const Array> inputs) { return inputs[0].copy(); },
        [](std::span<const Array>, const Array&, const Array&) -> std::vector<Array> {
          throw std::runtime_error("backward burnt");
        });
  };
  auto step = sync.step(test_device());
  {
    const auto local = step.no_sync(1);
    CHECK_THROWS(backward(fails(use(replicas[0].left, 1.0)) + use(replicas[0].right, 1.0)));
    CHECK_NOTHROW(backward(use(replicas[0].right, 1.0)));
  }
  CHECK_THROWS_WITH_AS(step.backward(loss_of(replicas[0])), doctest::Contains("failed midway"), SyncError);
  CHECK_THROWS_WITH_AS(step.synchronize(), doctest::Contains(as_tested("cpu:0")), SyncError);
}

TEST_CASE("failure reports: a micro-batch that is refused before it accumulates anything costs nothing") {
  GradientSync sync(test_devices(1), {.reduction = GradientReduction::weighted_mean});
  const auto replicas = sync.replicate(TwoBranches{});
  auto step = sync.step(test_device());
  {
    const auto local = step.no_sync(1);
    CHECK_THROWS(backward(Tensor(1.0)));
    backward(use(replicas[0].left, 3.0));
  }
  step.backward(use(replicas[0].left, 5.0));
  CHECK(gradient_of(replicas[0].left) == Values{4, 4});
}

TEST_SUITE_BEGIN("cpu");  // an engine for CPU devices

TEST_CASE("failure reports: a group lives as long as an optimizer or a collective waits in it") {
  struct Slow : LocalCommunicator, Crew {
    Slow(std::atomic<bool>& gone, std::atomic<bool>& used_after) : gone_(gone), used_after_(used_after) {}
    ~Slow() override { gone_ = true; }
    Crew& crew() override { return *this; }
    void help(Device device) override { LocalCommunicator::crew().help(device); }
    void help_all(Device device) override {
      LocalCommunicator::crew().help_all(device);
      std::this_thread::sleep_for(100ms);
      if (gone_) used_after_ = true;
    }
    std::atomic<bool>& gone_;
    std::atomic<bool>& used_after_;
  };
  for (const bool optimizes : {true, false}) {
    std::atomic<bool> gone{false};
    std::atomic<bool> used_after{false};
    auto sync =
        std::make_unique<GradientSync>(test_devices(2), SyncOptions{}, std::make_unique<Slow>(gone, used_after));
    const auto replicas = sync->replicate(TwoBranches{});
    Sgd sgd({replicas[0].left, replicas[0].right}, 0.125);
    std::atomic<bool> waits{false};
    std::thread device([&] {
      if (optimizes) {
        {
          sync->step(test_device()).backward_async(loss_of(replicas[0]));
        }
        waits = true;
        CHECK_THROWS_AS(sgd.step(), SyncError);
      } else {
        PendingTensor sum = sync->all_reduce(test_device(), replicas[0].left.detach());
        waits = true;
        CHECK_THROWS_AS(sum.resolve(), SyncError);
      }
    });
    while (!waits) std::this_thread::yield();
    std::this_thread::sleep_for(20ms);
    sync.reset();
    device.join();
    CHECK(gone);
    CHECK(!used_after);
  }
}

TEST_SUITE_END();

TEST_CASE("failure reports: rejoin_all with a device that cannot rejoin lets nobody join") {
  GradientSync sync(test_devices(2), {.fail_after = 300ms});
  const auto replicas = sync.replicate(TwoBranches{});
  sync.fail(test_device(), burnt("the disk is full"));
  const GradientSync::Rejoining some[] = {{test_device(), 0}, {test_device(7), 0}};
  CHECK_THROWS_WITH_AS(sync.rejoin_all(some), doctest::Contains(as_tested("cpu:7")), SyncError);
  CHECK_THROWS_WITH_AS(sync.rejoin(test_device(1), 0), doctest::Contains(as_tested("cpu:0")),
                       SyncError);  // at the deadline
  const GradientSync::Rejoining all[] = {{test_device(), 0}, {test_device(1), 0}};
  sync.rejoin_all(all);
  CHECK_NOTHROW(backward_on_both(sync, replicas));
}

TEST_CASE("failure reports: what an optimizer left half updated is taken from another device") {
  struct Burning : Sgd {
    using Sgd::Sgd;
    bool burns = false;
    void update(std::span<const Update> updates) override {
      Sgd::update(burns ? updates.first(1) : updates);
      if (burns) throw std::runtime_error("update burnt");
    }
  };
  for (const Overlap overlap : {Overlap::immediate, Overlap::double_buffered}) {
    GradientSync sync(test_devices(2), {.overlap = overlap});
    const auto replicas = sync.replicate(TwoBranches{});
    std::vector<std::unique_ptr<Burning>> optimizers;
    for (std::size_t d = 0; d < 2; ++d) {
      optimizers.push_back(std::make_unique<Burning>(std::vector<Tensor>{replicas[d].left, replicas[d].right}, 0.125));
      sync.attach(test_device(d), *optimizers[d]);
    }
    backward_on_both(sync, replicas);
    if (overlap == Overlap::double_buffered) backward_on_both(sync, replicas);
    optimizers[1]->burns = true;
    CHECK_THROWS_WITH(optimizers[1]->step(), "update burnt");
    optimizers[1]->burns = false;
    sync.fail(test_device(1), burnt("update burnt"));
    const GradientSync::Rejoining level[] = {{test_device(), 0}, {test_device(1), 0}};
    sync.rejoin_all(level);
    CHECK(replicas[1].left.to_vector<double>() == Values{1, 2});
    CHECK(replicas[1].left.to_vector<double>() == replicas[0].left.to_vector<double>());

    backward_on_both(sync, replicas);
    for (auto& optimizer : optimizers) optimizer->burns = true;
    if (overlap == Overlap::double_buffered) backward_on_both(sync, replicas);
    for (auto& optimizer : optimizers) CHECK_THROWS(optimizer->step());
    sync.fail(test_device(1), burnt("update burnt"));
    CHECK_THROWS_WITH_AS(sync.rejoin_all(level), doctest::Contains("threw midway"), SyncError);
  }
}

TEST_CASE("failure reports: a device that has left fails nobody when its last step unwinds") {
  bool by_function = false;
  SUBCASE("a step") {}
  SUBCASE("a step for a function") { by_function = true; }
  GradientSync sync(test_devices(2), {});
  const auto replicas = sync.replicate(TwoBranches{});
  const auto errors = errors_of_devices(2, [&](std::size_t d) {
    for (int i = 0; i < (d == 1 ? 3 : 1); ++i) {
      const auto body = [&](Step& step) {
        step.backward(loss_of(replicas[d]));
        for (const Tensor& parameter : {replicas[d].left, replicas[d].right}) Tensor(parameter).zero_grad();
        if (d != 0) return;
        sync.leave(test_device());
        throw std::runtime_error("cannot write the checkpoint");
      };
      if (by_function) {
        sync.step(test_device(d), 1.0, body);
      } else {
        auto step = sync.step(test_device(d));
        body(step);
      }
    }
  });
  CHECK(errors[0] == "cannot write the checkpoint");
  CHECK(errors[1] == "");
}

namespace {

struct FailedTask : EngineTask {
  FailedTask() { finish(burnt("the link is down")); }
};

struct FailingEngine : Communicator {
  std::shared_ptr<CollectiveTask> all_reduce(AllReduceRequest) override { return std::make_shared<FailedTask>(); }
  std::shared_ptr<CollectiveTask> collective(CollectiveRequest) override { return std::make_shared<FailedTask>(); }
};

}  // namespace

TEST_CASE("failure reports: a failed reduction is nobody's fault, and of the step that launched it") {
  for (const Overlap overlap : {Overlap::immediate, Overlap::double_buffered}) {
    GradientSync sync(test_devices(2), {.overlap = overlap}, std::make_unique<FailingEngine>());
    const auto replicas = sync.replicate(TwoBranches{});
    const auto errors = errors_of_devices(2, [&](std::size_t d) {
      for (int i = 0; i < 2; ++i) {
        auto step = sync.step(test_device(d));
        step.backward(loss_of(replicas[d]));
      }
    });
    for (const std::string& error : errors)
      CHECK(error == "[sync] a reduction failed in generation 1: the link is down");
  }
}

TEST_CASE("failure reports: a replica that is refused leaves nothing declared") {
  struct Refused : Module {  // of f64, which a 16-bit wire does not take
    Tensor p{Array::from(std::vector<double>{1}, {1}, test_device()), true};
    Tensor running{Array::from(std::vector<double>{0}, {1}, test_device())};
    void visit(MemberVisitor& v) override {
      v.parameter("p", p);
      v.buffer("running", running);
    }
  };
  struct Taken : Module {
    Tensor p{Array::from(std::vector<float>{1}, {1}, test_device()), true};
    void visit(MemberVisitor& v) override { v.parameter("p", p); }
  };
  GradientSync sync(test_devices(2), {.wire = GradientWire::bf16});
  CHECK_THROWS_AS(sync.replicate(Refused{}), Error);
  CHECK_NOTHROW(sync.replicate(Taken{}));
}

TEST_CASE("failure reports: nobody rejoins a group that is closed") {
  GradientSync sync(test_devices(2), {});
  const auto replicas = sync.replicate(TwoBranches{});
  sync.fail(test_device(), burnt("the disk is full"));
  std::string waiting;
  std::thread joins([&] {
    try {
      sync.rejoin(test_device(), 0);
    } catch (const std::exception& error) {
      waiting = error.what();
    }
  });
  std::this_thread::sleep_for(20ms);
  sync.close();
  joins.join();
  CHECK_MESSAGE(waiting.find("closed") != std::string::npos, waiting);
  CHECK_THROWS_WITH_AS(sync.rejoin(test_device(1), 0), doctest::Contains("closed"), SyncError);
}
