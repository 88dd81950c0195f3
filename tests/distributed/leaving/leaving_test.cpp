// SPDX-License-Identifier: Apache-2.0
// Devices that leave: when they may, what it does to the others, and how those that follow stop.
#include <tutti/distributed/gradient_sync.h>

#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/two_branches.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

using namespace tutti;
using namespace tutti::testing;
using std::chrono::milliseconds;

namespace {

SyncOptions impatient(SyncOptions options = {}) {
  options.warn_after = milliseconds(1000);
  options.fail_after = milliseconds(2000);
  if (!options.warn) options.warn = [](const std::string&) {};
  return options;
}

struct Pair {
  explicit Pair(SyncOptions options = {})
      : sync(test_devices(2), impatient(std::move(options))), replicas(sync.replicate(TwoBranches{})) {}
  /// A step of the device, the only one that has not left.
  void step(std::size_t d) {
    replicas[d].zero_grad();
    auto step = sync.step(test_device(d));
    step.backward(use(replicas[d].left, 1) + use(replicas[d].right, 2));
  }
  GradientSync sync;
  std::vector<TwoBranches> replicas;
};

std::exception_ptr disk_full() { return std::make_exception_ptr(std::runtime_error("disk full")); }

struct Large : Module {
  Tensor weight{Array::full({100'000}, 1.0, DType::f64, test_device()), true};
  void visit(MemberVisitor& v) override { v.parameter("weight", weight); }
};

}  // namespace

TEST_CASE("leaving: after forming the next group was refused, which the others then form without it") {
  Pair pair;
  Sgd optimizer(pair.replicas[0].parameters(), 0.1);
  pair.sync.attach(test_device(), optimizer);  // and none on the other
  pair.sync.fail(test_device(1), disk_full());
  const GradientSync::Rejoining all[] = {{test_device(), 1}, {test_device(1), 0}};
  CHECK_THROWS_WITH_AS(pair.sync.rejoin_all(all), doctest::Contains("attached optimizers"), SyncError);
  pair.sync.leave(test_device(1));
  CHECK_NOTHROW(pair.sync.rejoin(test_device(), 1));
  CHECK(pair.sync.group_number() == 3);
  CHECK_NOTHROW(pair.step(0));
}

TEST_CASE("leaving: before the replicas are attached") {
  GradientSync sync(test_devices(2), impatient());
  sync.leave(test_device(1));
  TwoBranches model;
  SUBCASE("those that stay train") {
    sync.attach(test_device(), model);
    auto step = sync.step(test_device());
    step.backward(use(model.left, 2) + use(model.right, 3));
    CHECK(gradient_of(model.left) == Values{2, 2});
    CHECK(gradient_of(model.right) == Values{3, 3});
  }
  SUBCASE("a replica that comes after a step without one is refused") {
    {
      auto step = sync.step(test_device());
      step.synchronize();
    }
    TwoBranches late = clone(model, test_device(1));
    CHECK_THROWS_WITH_AS(sync.attach(test_device(1), late), doctest::Contains(as_tested("cpu:1")), SyncError);
  }
}

TEST_CASE("leaving: a device that fails before the replicas are attached can rejoin with them") {
  for (const Sharding sharding : {Sharding::none, Sharding::gradients}) {
    GradientSync sync(test_devices(2), impatient({.sharding = sharding}));
    sync.fail(test_device(1), disk_full());
    auto replicas = sync.replicate(TwoBranches{});
    const GradientSync::Rejoining all[] = {{test_device(), 0}, {test_device(1), 0}};
    sync.rejoin_all(all);
    run_devices(2, [&](std::size_t d) {
      auto step = sync.step(test_device(d));
      step.backward(use(replicas[d].left, d == 0 ? 1.0 : 3.0));
      if (sharding == Sharding::none) CHECK(gradient_of(replicas[d].left) == Values{2, 2});
    });
  }
}

TEST_CASE("leaving: when all have left, no deadline runs") {
  std::atomic<int> warnings = 0;
  SyncOptions options;
  options.warn_after = milliseconds(800);
  options.fail_after = milliseconds(1000);
  options.warn = [&](const std::string&) { ++warnings; };
  GradientSync sync(test_devices(2), options);
  auto replicas = sync.replicate(TwoBranches{});
  sync.leave(test_device(), Follow::yes);
  run_devices(2, [&](std::size_t d) {
    if (d == 0) {
      CHECK_FALSE(sync.follow(test_device()));
    } else {
      std::this_thread::sleep_for(milliseconds(30));
      sync.leave(test_device(1));
    }
  });
  std::this_thread::sleep_for(milliseconds(1200));
  CHECK(warnings == 0);
  CHECK_NOTHROW(run_devices(2, [&](std::size_t d) { sync.barrier(test_device(d)); }));
}

TEST_CASE("leaving: nothing is kept for a device that follows no more") {
  GradientSync sync(test_devices(2), impatient());
  auto replicas = sync.replicate(Large());
  const auto steps = [&] {
    for (int i = 0; i < 5; ++i) {
      replicas[1].zero_grad();
      auto step = sync.step(test_device(1));
      step.backward(sum(replicas[1].weight));
    }
  };
  const auto in_use = [] {
    for (const Device device : test_devices(2))
      synchronize(device);  // until then a copy holds what it reads and writes
    return memory_pool(test_device()).statistics().in_use;
  };
  // On CUDA the engine lets go of a finished reduction's arrays when it notices.
  const auto falls_below = [&](std::size_t bytes) {
    for (int i = 0; i < 1000 && in_use() >= bytes; ++i) std::this_thread::sleep_for(milliseconds(5));
    return in_use() < bytes;
  };
  const std::size_t before = in_use();
  const std::size_t gradient = 100'000 * sizeof(double);
  sync.leave(test_device(), Follow::yes);
  SUBCASE("because it says so") {
    steps();
    CHECK(in_use() >= before + 5 * gradient);
    sync.leave(test_device(), Follow::no);
    CHECK(falls_below(before + gradient));
    CHECK_THROWS_WITH_AS((void)sync.follow(test_device()), doctest::Contains("Follow::yes"), SyncError);
  }
  SUBCASE("because it cannot take over the others' state") {
    Sgd optimizer(replicas[1].parameters(), 0.1);
    sync.attach(test_device(1), optimizer);
    sync.fail(test_device(1), disk_full());
    sync.rejoin(test_device(1), 0);
    CHECK_THROWS_WITH_AS((void)sync.follow(test_device()), doctest::Contains("attached optimizers"), SyncError);
    CHECK_THROWS_WITH_AS((void)sync.follow(test_device()), doctest::Contains("could not take over"), SyncError);
  }
  steps();
  CHECK(falls_below(before + gradient));
}

TEST_CASE("leaving: a device that has left leaves its place in the sums empty") {
  struct Weight : Module {
    Tensor weight{Array::zeros({1}, DType::f32, test_device()), true};
    void visit(MemberVisitor& v) override { v.parameter("weight", weight); }
  };
  GradientSync sync(test_devices(4), impatient({.reduction = GradientReduction::sum}));
  auto replicas = sync.replicate(Weight());
  const double gradients[] = {1, 1, 0x1p-24, 0x1p-24};
  const auto summed = [&](std::size_t d) {
    replicas[d].zero_grad();
    auto step = sync.step(test_device(d));
    step.backward(sum(replicas[d].weight * gradients[d]));
    return replicas[d].weight.grad().to_vector<float>().front();
  };
  const float tiny = 0x1p-24F;
  run_devices(4, [&](std::size_t d) { CHECK(summed(d) == 2.0F); });  // (1 + 1) + (tiny + tiny), rounded to even
  run_devices(4, [&](std::size_t d) {
    if (d == 1) return sync.leave(test_device(1));
    CHECK(summed(d) == 1.0F + (tiny + tiny));  // without that place: (1 + tiny) + tiny, which is 1
  });
}

TEST_CASE("leaving: following, leaving and rejoining refuse to wait for a device of the same thread") {
  Pair pair;
  SUBCASE("follow") {
    pair.sync.leave(test_device(), Follow::yes);
    for (int i = 0; i < 2; ++i) {
      {
        pair.replicas[1].zero_grad();
        auto step = pair.sync.step(test_device(1));
        CHECK_THROWS_WITH_AS((void)pair.sync.follow(test_device()),
                             doctest::Contains(as_tested("cpu:0 would wait for cpu:1")), SyncError);
        step.backward(use(pair.replicas[1].left, 1));
      }
      CHECK(pair.sync.follow(test_device()));
    }
    pair.sync.fail(test_device(1), disk_full());
    pair.sync.rejoin(test_device(1), 2);
    pair.replicas[1].zero_grad();
    auto step = pair.sync.step(test_device(1));  // the state of the new group is there, its first step is not
    CHECK_THROWS_WITH_AS((void)pair.sync.follow(test_device()),
                         doctest::Contains(as_tested("cpu:0 would wait for cpu:1")), SyncError);
    step.backward(use(pair.replicas[1].left, 1));
    CHECK(pair.sync.follow(test_device()));
  }
  SUBCASE("what has been posted is not waited for") {
    pair.sync.leave(test_device(), Follow::yes);
    pair.step(1);
    pair.replicas[1].zero_grad();
    auto step = pair.sync.step(test_device(1));
    CHECK(pair.sync.follow(test_device()));
    step.synchronize();
  }
  SUBCASE("leave") {
    auto first = pair.sync.step(test_device());
    auto second = pair.sync.step(test_device(1));
    first.backward_async(use(pair.replicas[0].left, 1));
    CHECK_THROWS_WITH_AS(pair.sync.leave(test_device()), doctest::Contains(as_tested("cpu:0 would wait for cpu:1")),
                         SyncError);
    second.backward_async(use(pair.replicas[1].left, 3));
    join_all(first, second);
    CHECK(gradient_of(pair.replicas[0].left) == Values{2, 2});
    pair.sync.leave(test_device());
    pair.step(1);
  }
  SUBCASE("rejoin") {
    auto first = pair.sync.step(test_device());
    auto second = pair.sync.step(test_device(1));
    first.backward_async(use(pair.replicas[0].left, 1));
    CHECK_THROWS_WITH_AS(pair.sync.rejoin(test_device(), 0), doctest::Contains(as_tested("cpu:0 would wait for cpu:1")),
                         SyncError);
    second.backward_async(use(pair.replicas[1].left, 3));
    join_all(first, second);
  }
  SUBCASE("rejoin in a group that has failed already") {
    auto second = pair.sync.step(test_device(1));
    pair.sync.fail(test_device(), disk_full());
    CHECK_THROWS_WITH_AS(pair.sync.rejoin(test_device(), 0), doctest::Contains(as_tested("cpu:0 would wait for cpu:1")),
                         SyncError);
    second.fail(disk_full());
  }
}

TEST_CASE("leaving: nobody follows under Absent::subset, which has no results for those who take no part") {
  Pair pair({.absent = Absent::subset});
  CHECK_THROWS_WITH_AS(pair.sync.leave(test_device(), Follow::yes), doctest::Contains(as_tested("cpu:0 cannot follow")),
                       SyncError);
  pair.sync.leave(test_device());
  CHECK_NOTHROW(pair.step(1));
}

TEST_CASE("leaving: a device that left is told so when it asks to rejoin a group that has failed") {
  Pair pair;
  pair.sync.leave(test_device());
  pair.sync.fail(test_device(1), disk_full());
  CHECK_THROWS_WITH_AS(pair.sync.rejoin(test_device(), 0), doctest::Contains(as_tested("cpu:0 has left")), SyncError);
}
