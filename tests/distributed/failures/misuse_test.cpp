// SPDX-License-Identifier: Apache-2.0
// Steps, scopes and groups used in ways that once averaged wrongly, hung, or outlived each other.
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
#include <memory>
#include <optional>
#include <thread>

using namespace tutti;
using namespace tutti::testing;
using std::chrono::milliseconds;

namespace {

struct Pair {
  explicit Pair(SyncOptions options = {}, std::size_t count = 2)
      : sync(std::make_unique<GradientSync>(test_devices(count), std::move(options))),
        replicas(sync->replicate(TwoBranches{})) {}
  std::unique_ptr<GradientSync> sync;
  std::vector<TwoBranches> replicas;
};

SyncOptions impatient() {
  SyncOptions options;
  options.warn_after = milliseconds(50);
  options.fail_after = milliseconds(2000);
  options.warn = [](const std::string&) {};
  return options;
}

}  // namespace

TEST_CASE("misuse: fresh threads for each epoch, one of them late") {
  Pair pair({}, 3);
  for (int epoch = 0; epoch < 4; ++epoch)
    run_devices(3, [&](std::size_t d) {
      if (epoch > 0 && d == 1) std::this_thread::sleep_for(milliseconds(10));
      pair.replicas[d].zero_grad();
      auto step = pair.sync->step(test_device(d));
      step.backward(use(pair.replicas[d].left, 1.0));
    });
}

TEST_CASE("misuse: a device handed to another thread after a first step") {
  Pair pair;
  {
    auto a = pair.sync->step(test_device());
    auto b = pair.sync->step(test_device(1));
    a.backward_async(use(pair.replicas[0].left, 1));
    b.backward_async(use(pair.replicas[1].left, 1));
    join_all(a, b);
  }
  for (auto& replica : pair.replicas) replica.zero_grad();
  std::thread other([&] {
    std::this_thread::sleep_for(milliseconds(10));
    auto step = pair.sync->step(test_device(1));
    step.backward(use(pair.replicas[1].left, 1));
  });
  auto step = pair.sync->step(test_device());
  CHECK_NOTHROW(step.backward(use(pair.replicas[0].left, 1)));
  other.join();
}

TEST_CASE("misuse: a no_sync scope may neither surround nor follow the synchronised backward") {
  Pair pair;
  auto step = pair.sync->step(test_device());
  {
    const NoSync local = step.no_sync();
    backward(use(pair.replicas[0].left, 1));
    CHECK_THROWS_WITH_AS(step.backward_async(use(pair.replicas[0].left, 3)), doctest::Contains("no_sync"), SyncError);
    CHECK_THROWS_WITH_AS(step.synchronize_async(), doctest::Contains(as_tested("cpu:0")), SyncError);
  }
  step.backward_async(use(pair.replicas[0].left, 3));
  CHECK_THROWS_WITH_AS((void)step.no_sync(), doctest::Contains("no_sync"), SyncError);
  auto other = pair.sync->step(test_device(1), 2.0);
  other.backward_async(use(pair.replicas[1].left, 5));
  join_all(step, other);
  CHECK(gradient_of(pair.replicas[1].left) == Values{3.5, 3.5});  // (1 + 3 + 2 * 5) / 4
}

TEST_CASE("misuse: a loss without a graph fails the step for all, and is not counted twice") {
  Pair pair;
  const auto errors = errors_of_devices(2, [&](std::size_t d) {
    auto step = pair.sync->step(test_device(d));
    if (d == 1) return step.backward(use(pair.replicas[1].left, 3));
    CHECK_THROWS_AS(step.backward(Tensor(Array::full({}, 1.0, DType::f64, test_device()))), AutodiffError);
    step.backward(use(pair.replicas[0].left, 1));
  });
  CHECK_MESSAGE(errors[1].find(as_tested("cpu:0")) != std::string::npos, errors[1]);
  CHECK_MESSAGE(errors[1].find("no graph") != std::string::npos, errors[1]);
  CHECK_FALSE(errors[0].empty());
}

TEST_CASE("misuse: a device without a replica is named at its first step") {
  GradientSync sync(test_devices(2));
  TwoBranches model;
  sync.attach(test_device(), model);
  CHECK_THROWS_WITH_AS((void)sync.step(test_device(1)), doctest::Contains(as_tested("cpu:1")), SyncError);
  CHECK_THROWS_WITH_AS(sync.leave(test_device(1), Follow::yes), doctest::Contains("replica"), SyncError);
}

TEST_CASE("misuse: the group's end while a device waits, and steps that outlive it") {
  Pair pair;
  auto survivor = std::make_unique<Step>(pair.sync->step(test_device(1)));
  std::atomic<bool> stepping{false};
  std::string error;
  std::thread waiting([&] {
    auto step = pair.sync->step(test_device());
    try {
      step.backward_async(use(pair.replicas[0].left, 1));
      stepping = true;
      step.join();
    } catch (const SyncError& closed) {
      error = closed.what();
    }
  });
  while (!stepping) std::this_thread::yield();
  pair.sync.reset();
  waiting.join();
  CHECK_MESSAGE(error.find("closed") != std::string::npos, error);
  CHECK_THROWS_AS(survivor->backward(use(pair.replicas[1].left, 1)), SyncError);
  survivor.reset();
}

TEST_CASE("misuse: a step object assigned over by the next one") {
  Pair pair;
  run_devices(2, [&](std::size_t d) {
    std::unique_ptr<Step> step;
    for (int i = 0; i < 3; ++i) {
      pair.replicas[d].zero_grad();
      step = std::make_unique<Step>(pair.sync->step(test_device(d)));
      step->backward(use(pair.replicas[d].left, 1.0 + d));
      CHECK(gradient_of(pair.replicas[d].left) == Values{1.5, 1.5});
    }
  });
}

TEST_CASE("misuse: an old step is refused once a later one is open") {
  Pair pair;
  run_devices(2, [&](std::size_t d) {
    auto first = pair.sync->step(test_device(d));
    first.backward(use(pair.replicas[d].left, 1.0));
    pair.replicas[d].zero_grad();
    auto second = pair.sync->step(test_device(d));
    CHECK_THROWS_WITH_AS(first.backward(use(pair.replicas[d].left, 1.0)), doctest::Contains("over"), SyncError);
    CHECK_THROWS_AS((void)first.total_weight(), SyncError);
    second.backward(use(pair.replicas[d].left, 1.0));
  });
}

TEST_CASE("misuse: nothing steps on a failed generation, until the device rejoins") {
  Pair pair;
  const auto errors = errors_of_devices(2, [&](std::size_t d) {
    Sgd optimizer(pair.replicas[d].parameters(), 0.1);
    pair.sync->attach(test_device(d), optimizer);
    try {
      auto step = pair.sync->step(test_device(d));
      if (d == 1) throw std::runtime_error("burnt");
      step.backward_async(use(pair.replicas[0].left, 1));
      CHECK_THROWS_AS(step.join(), SyncError);
      CHECK_THROWS_AS(step.join(), SyncError);
    } catch (const std::runtime_error&) {
    }
    CHECK_THROWS_WITH_AS(optimizer.step(), doctest::Contains(as_tested("cpu:1")), SyncError);
    CHECK(optimizer.steps() == 0);
    pair.replicas[d].zero_grad();
    pair.sync->rejoin(test_device(d), optimizer.steps());
    auto step = pair.sync->step(test_device(d));
    step.backward(use(pair.replicas[d].left, 1));
    optimizer.step();
  });
  for (const std::string& error : errors) CHECK_MESSAGE(error.empty(), error);
}

TEST_CASE("misuse: nor does a device that comes to its step only when the group has failed") {
  Pair pair;
  pair.sync->fail(test_device(1), std::make_exception_ptr(std::runtime_error("burnt")));
  Sgd optimizer(pair.replicas[0].parameters(), 0.1);
  CHECK_THROWS_WITH_AS((void)pair.sync->step(test_device()), doctest::Contains("burnt"), SyncError);
  CHECK_THROWS_WITH_AS(optimizer.step(), doctest::Contains("burnt"), SyncError);
  CHECK(optimizer.steps() == 0);
}

TEST_CASE("misuse: what was posted and never committed leaves no gradient behind; what was committed does") {
  Pair pair;
  {
    auto step = pair.sync->step(test_device(), 3.0);
    step.backward_async(use(pair.replicas[0].left, 1));
  }
  SUBCASE("incomplete") {
    pair.sync.reset();
    CHECK(gradient_of(pair.replicas[0].left).empty());
  }
  SUBCASE("complete") {
    {
      auto step = pair.sync->step(test_device(1), 3.0);
      step.backward_async(use(pair.replicas[1].left, 2));
    }
    pair.sync.reset();
    CHECK(gradient_of(pair.replicas[0].left) == Values{1.5, 1.5});
  }
}

TEST_CASE("misuse: a step that unwinds after its commit leaves no reduction running") {
  struct Big : Module {
    Tensor w{Array::full({4 * 1024 * 1024}, 1.0, DType::f32, test_device()), true};
    void visit(MemberVisitor& v) override { v.parameter("w", w); }
  };
  GradientSync sync(test_devices(2));
  auto replicas = sync.replicate(Big{});
  std::atomic<bool> posted{false};
  std::thread other([&] {
    while (!posted) std::this_thread::yield();
    sync.leave(test_device(), Follow::yes);
  });
  try {
    auto step = sync.step(test_device(1));
    step.backward_async(sum(replicas[1].w * 2.0));
    posted = true;
    while (sync.report().steps.back().devices[1].released == SyncReport::Time{}) std::this_thread::yield();
    throw std::runtime_error("late");
  } catch (const std::runtime_error&) {
  }
  if (!tests_run_on_cpu())  // what is left is order between streams
    for (const Device device : test_devices(2)) synchronize(device);
  const SyncReport report = sync.report();
  for (const auto& reduction : report.steps.back().reductions) CHECK(reduction.finished != SyncReport::Time{});
  other.join();
}

TEST_CASE("misuse: one thread that drives all devices heals the group with rejoin_all") {
  Pair pair(impatient());
  try {
    auto step = pair.sync->step(test_device());
    throw 1;
  } catch (int) {
  }
  const GradientSync::Rejoining all[] = {{test_device()}, {test_device(1)}};
  CHECK_NOTHROW(pair.sync->rejoin_all(all));
  CHECK(pair.sync->group_number() == 2);
}

TEST_CASE("misuse: an optimizer attached on one side only cannot be copied, and says so") {
  Pair pair(impatient());
  Sgd optimizer(pair.replicas[0].parameters(), 0.1, {.momentum = 0.9});
  pair.sync->attach(test_device(), optimizer);
  try {
    auto step = pair.sync->step(test_device());
    throw 1;
  } catch (int) {
  }
  const GradientSync::Rejoining all[] = {{test_device(), 5}, {test_device(1), 4}};
  CHECK_THROWS_WITH_AS(pair.sync->rejoin_all(all), doctest::Contains("optimizer"), SyncError);
}

TEST_CASE("misuse: with reductions off each device keeps its own gradients, and absent ones none") {
  Pair pair;
  pair.sync->set_reductions_enabled(false);
  run_devices(2, [&](std::size_t d) {
    auto step = pair.sync->step(test_device(d), 2.0);
    if (d == 0)
      step.backward(use(pair.replicas[0].left, 3));
    else
      step.synchronize();
  });
  CHECK(gradient_of(pair.replicas[0].left) == Values{3, 3});
  CHECK(gradient_of(pair.replicas[1].left).empty());
}

TEST_CASE("misuse: only a device that said so can follow") {
  Pair pair;
  pair.sync->leave(test_device());
  CHECK_THROWS_WITH_AS(pair.sync->follow(test_device()), doctest::Contains("Follow::yes"), SyncError);
}

TEST_CASE("misuse: weights that f32 cannot sum are refused, not divided by") {
  for (const double weight : {1e-46, 1e39}) {
    Pair pair;
    const auto errors = errors_of_devices(2, [&](std::size_t d) {
      auto step = pair.sync->step(test_device(d), weight);
      step.backward(use(pair.replicas[d].left, 1));
    });
    for (const std::string& error : errors) CHECK_MESSAGE(error.find("weight") != std::string::npos, error);
  }
}

TEST_CASE("misuse: a loss of another copy of the model is refused, on all devices") {
  Pair pair;
  const TwoBranches stray = clone(pair.replicas[1], test_device(1));
  const auto errors = errors_of_devices(2, [&](std::size_t d) {
    auto step = pair.sync->step(test_device(d), 4.0);
    step.backward(use(d == 1 ? stray.left : pair.replicas[0].left, 1));
  });
  for (const std::string& error : errors) CHECK_MESSAGE(error.find("another copy") != std::string::npos, error);
}

TEST_CASE("misuse: leaves of no group get their plain gradients, whatever the weight") {
  Pair pair;
  run_devices(2, [&](std::size_t d) {
    Tensor input(Array::full({2}, 3.0, DType::f64, test_device(d)), true);
    auto step = pair.sync->step(test_device(d), 4.0);
    {
      const NoSync local = step.no_sync(8.0);
      backward(sum(pair.replicas[d].left * input));
    }
    step.backward(sum(pair.replicas[d].left * input));
    CHECK(gradient_of(input) == Values{2, 4});  // twice the parameter
    CHECK(gradient_of(pair.replicas[d].left) == Values{3, 3});
  });
}

TEST_CASE("misuse: a device that fails outside of a step is heard at once, with its cause") {
  Pair pair;
  const auto errors = errors_of_devices(2, [&](std::size_t d) {
    if (d == 1) return pair.sync->fail(test_device(1), std::make_exception_ptr(std::runtime_error("disk on fire")));
    auto step = pair.sync->step(test_device());
    step.backward(use(pair.replicas[0].left, 1));
  });
  CHECK_MESSAGE(errors[0].find(as_tested("cpu:1")) != std::string::npos, errors[0]);
  CHECK_MESSAGE(errors[0].find("disk on fire") != std::string::npos, errors[0]);
}

TEST_CASE("misuse: a parameter that is unfrozen after its replica was attached fails the step on all, named") {
  for (const bool used : {false, true}) {
    TwoBranches model;
    model.right.set_requires_grad(false);
    GradientSync sync(test_devices(2), impatient());
    auto replicas = sync.replicate(model);
    const auto errors = errors_of_devices(2, [&](std::size_t d) {
      if (d == 1) replicas[1].right.set_requires_grad(true);
      auto step = sync.step(test_device(d));
      step.backward(used ? use(replicas[d].left, 1) + use(replicas[d].right, 1) : use(replicas[d].left, 1));
    });
    for (const std::string& error : errors)
      CHECK_MESSAGE(error.find(as_tested("parameter \"right\" on cpu:1 requires a gradient")) != std::string::npos,
                    error);
  }
}

TEST_CASE("misuse: an optimizer is attached once, and to the device of its parameters") {
  TwoBranches model;
  model.right.set_requires_grad(false);
  SUBCASE("twice, also if it has nothing to update in backward") {
    GradientSync sync(test_devices(1), {.overlap = Overlap::in_backward});
    sync.attach(test_device(), model);
    Sgd left({model.left}, 0.1);
    Sgd right({model.right}, 0.1);
    sync.attach(test_device(), left);
    sync.attach(test_device(), right);
    CHECK_THROWS_WITH_AS(sync.attach(test_device(), right), doctest::Contains("this optimizer already"), SyncError);
    auto step = sync.step(test_device());
    step.backward(use(model.left, 1));
    CHECK(left.steps() == 1);
    CHECK(right.steps() == 1);
  }
  SUBCASE("of another device") {
    Pair pair;
    Sgd optimizer(pair.replicas[0].parameters(), 0.1);
    CHECK_THROWS_WITH_AS(pair.sync->attach(test_device(1), optimizer),
                         doctest::Contains(as_tested("parameter 0 of the optimizer for cpu:1 lives on cpu:0")),
                         SyncError);
  }
}

TEST_CASE("misuse: an option or a collective that there is not is refused by its name") {
  const std::vector<Device> one{cpu(0)};
  CHECK_THROWS_WITH_AS(GradientSync(one, {.reduction = static_cast<GradientReduction>(9)}),
                       doctest::Contains("9 is no GradientReduction"), Error);
  CHECK_THROWS_WITH_AS(GradientSync(one, {.absent = static_cast<Absent>(9)}), doctest::Contains("9 is no Absent"),
                       Error);
  CHECK_THROWS_WITH_AS(GradientSync(one, {.overlap = static_cast<Overlap>(9)}), doctest::Contains("9 is no Overlap"),
                       Error);
  CHECK_THROWS_WITH_AS(GradientSync(one, {.sharding = static_cast<Sharding>(9)}), doctest::Contains("9 is no Sharding"),
                       Error);
  GradientSync sync(one);
  CHECK_THROWS_WITH_AS((void)sync.all_reduce(cpu(0), ones({2}), static_cast<CollectiveOperation>(9)),
                       doctest::Contains("[all_reduce] 9 is no CollectiveOperation"), Error);
}
