// SPDX-License-Identifier: Apache-2.0
// The rules of synchronisation as users meet them: who takes part, what is averaged, and when.
#include <tutti/distributed/gradient_sync.h>

#include <tutti/backend/error.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/two_branches.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>

using namespace tutti;
using namespace tutti::testing;

namespace {

struct Pair {
  explicit Pair(SyncOptions options = {}, std::size_t count = 2)
      : sync(test_devices(count), std::move(options)), replicas(sync.replicate(TwoBranches{})) {}
  GradientSync sync;
  std::vector<TwoBranches> replicas;
};

const SyncOptions kMean{.reduction = GradientReduction::mean};

}  // namespace

TEST_CASE("gradient_sync: the mean reaches every device") {
  Pair pair(kMean);
  run_devices(2, [&](std::size_t d) {
    auto& model = pair.replicas[d];
    auto step = pair.sync.step(test_device(d));
    step.backward(use(model.left, d == 0 ? 1.0 : 3.0) + use(model.right, d == 0 ? 10.0 : 20.0));
    CHECK(gradient_of(model.left) == Values{2, 2});
    CHECK(gradient_of(model.right) == Values{15, 15});
  });
}

TEST_CASE("gradient_sync: sum, mean and weighted mean") {
  for (const auto& [reduction, expected] :
       {std::pair{GradientReduction::sum, 1.0 + 5.0}, std::pair{GradientReduction::mean, 3.0},
        std::pair{GradientReduction::weighted_mean, (3 * 1.0 + 1 * 5.0) / 4}}) {
    Pair pair({.reduction = reduction});
    run_devices(2, [&](std::size_t d) {
      auto step = pair.sync.step(test_device(d), d == 0 ? 3 : 1);
      step.backward(use(pair.replicas[d].left, d == 0 ? 1.0 : 5.0));
      CHECK(gradient_of(pair.replicas[d].left) == Values{expected, expected});
      CHECK(step.total_weight() == 4);
    });
  }
}

TEST_CASE("gradient_sync: a device with no parameters in its graph takes part") {
  Pair pair(kMean);
  run_devices(2, [&](std::size_t d) {
    for (int i = 0; i < 5; ++i) {
      auto& model = pair.replicas[d];
      model.zero_grad();
      auto step = pair.sync.step(test_device(d));
      if (d == 0)
        step.backward(use(model.left, 4.0 + i));
      else
        step.synchronize();
      CHECK(gradient_of(model.left) == Values{(4.0 + i) / 2, (4.0 + i) / 2});
      CHECK(gradient_of(model.right).empty());
    }
  });
}

TEST_CASE("gradient_sync: different parameters on different devices, absent ones count as zeros") {
  Pair pair(kMean);
  run_devices(2, [&](std::size_t d) {
    auto& model = pair.replicas[d];
    auto step = pair.sync.step(test_device(d));
    step.backward(d == 0 ? use(model.left, 6.0) : use(model.right, 8.0));
    CHECK(gradient_of(model.left) == Values{3, 3});
    CHECK(gradient_of(model.right) == Values{4, 4});
  });
}

TEST_CASE("gradient_sync: with Absent::subset the others' gradients are left alone") {
  Pair pair({.reduction = GradientReduction::mean, .absent = Absent::subset});
  run_devices(2, [&](std::size_t d) {
    auto& model = pair.replicas[d];
    auto step = pair.sync.step(test_device(d));
    step.backward(d == 0 ? use(model.left, 6.0) + use(model.right, 2.0) : use(model.right, 8.0));
    CHECK(gradient_of(model.left) == (d == 0 ? Values{6, 6} : Values{}));
    CHECK(gradient_of(model.right) == Values{5, 5});
  });
}

TEST_CASE("gradient_sync: a parameter used twice in a graph is reduced once, whole") {
  Pair pair(kMean);
  run_devices(2, [&](std::size_t d) {
    auto& model = pair.replicas[d];
    auto step = pair.sync.step(test_device(d));
    step.backward(use(model.left, 1.0 + d) + use(model.left, 10.0) + sum(square(model.left)));
    const double mean = 1.5 + 10;
    CHECK(gradient_of(model.left) == Values{mean + 2 * 1, mean + 2 * 2});
  });
}

namespace {
struct Shared : Module {
  TwoBranches first;
  TwoBranches second;
  Shared() { second.left = first.left; }
  void visit(MemberVisitor& v) override {
    v.module("first", first);
    v.module("second", second);
  }
};
}  // namespace

TEST_CASE("gradient_sync: a tensor shared by two modules is one parameter") {
  GradientSync sync(test_devices(2), kMean);
  auto replicas = sync.replicate(Shared{});
  CHECK(replicas[1].first.left.is_same(replicas[1].second.left));
  CHECK(replicas[0].named_parameters().size() == 3);
  run_devices(2, [&](std::size_t d) {
    auto step = sync.step(test_device(d));
    step.backward(use(replicas[d].first.left, 1.0 + d) + use(replicas[d].second.left, 2.0));
    CHECK(gradient_of(replicas[d].first.left) == Values{3.5, 3.5});
  });
}

// The original server's first deadlock: B is released from round 1 and registers round 2 before A has synced round 1.
TEST_CASE("gradient_sync: a fast device may be a round ahead") {
  Pair pair(kMean);
  run_devices(2, [&](std::size_t d) {
    auto& model = pair.replicas[d];
    for (int i = 0; i < 50; ++i) {
      model.zero_grad();
      auto step = pair.sync.step(test_device(d));
      step.backward_async(use(model.left, i + 10.0 * d));
      if (d == 0 && i % 7 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      step.join();
      CHECK(gradient_of(model.left) == Values{i + 5.0, i + 5.0});
    }
  });
}

// The original's silent corruption: a device without parameters is released early, and later rounds pair up wrongly.
TEST_CASE("gradient_sync: rounds never mix when devices take turns without parameters") {
  Pair pair(kMean);
  run_devices(2, [&](std::size_t d) {
    auto& model = pair.replicas[d];
    for (int i = 0; i < 20; ++i) {
      model.zero_grad();
      auto step = pair.sync.step(test_device(d));
      const bool has_parameters = (i + d) % 2 == 0;
      if (has_parameters)
        step.backward(use(model.left, 100.0 * i));
      else
        step.synchronize();
      CHECK(gradient_of(model.left) == Values{50.0 * i, 50.0 * i});
    }
  });
}

TEST_CASE("gradient_sync: one thread drives two devices") {
  Pair pair(kMean);
  for (int i = 0; i < 3; ++i) {
    for (auto& model : pair.replicas) model.zero_grad();
    auto first = pair.sync.step(test_device());
    auto second = pair.sync.step(test_device(1));
    first.backward_async(use(pair.replicas[0].left, 1.0));
    second.backward_async(use(pair.replicas[1].left, 2.0));
    join_all(first, second);
    CHECK(gradient_of(pair.replicas[0].left) == Values{1.5, 1.5});
    CHECK(gradient_of(pair.replicas[1].left) == Values{1.5, 1.5});
  }
}

TEST_CASE("gradient_sync: waiting for a device that the same thread drives fails at once and names it") {
  Pair pair(kMean);
  auto first = pair.sync.step(test_device());
  auto second = pair.sync.step(test_device(1));
  const auto start = std::chrono::steady_clock::now();
  CHECK_THROWS_WITH_AS(first.backward(use(pair.replicas[0].left, 1.0)), doctest::Contains(as_tested("cpu:1")),
                       SyncError);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
  second.fail(std::make_exception_ptr(SyncError("given up")));
  first.fail(std::make_exception_ptr(SyncError("given up")));
}

TEST_CASE("gradient_sync: evaluation and grad() between steps are no rounds") {
  Pair pair(kMean);
  run_devices(2, [&](std::size_t d) {
    auto& model = pair.replicas[d];
    for (int i = 0; i < 3; ++i) {
      model.zero_grad();
      auto step = pair.sync.step(test_device(d));
      step.backward(use(model.left, 2.0 * d));
      CHECK(gradient_of(model.left) == Values{1, 1});
      if (d == 0) {
        const Tensor inputs[] = {model.left};
        CHECK(grad(use(model.left, 7.0), inputs).front().to_vector<double>() == Values{7, 7});
        const NoGrad evaluation;
        CHECK(use(model.left, 1.0).item<double>() == 3.0);
      }
    }
  });
}

TEST_CASE("gradient_sync: a backward outside a step is refused and names the parameter") {
  Pair pair(kMean);
  CHECK_THROWS_WITH_AS(backward(use(pair.replicas[0].right, 1.0)), doctest::Contains("right"), AutodiffError);
}

TEST_CASE("gradient_sync: accumulation reduces once, also a parameter used only in an earlier micro-step") {
  Pair pair;  // weighted mean
  run_devices(2, [&](std::size_t d) {
    auto& model = pair.replicas[d];
    auto step = pair.sync.step(test_device(d), 1);
    {
      const NoSync local = step.no_sync(3);
      backward(use(model.left, 2.0 + d) + use(model.right, 8.0));
    }
    step.backward(use(model.left, 6.0 + d));
    // left: (3 (2 + d) + 1 (6 + d)) summed over d, by 8 examples; right: 3 * 8 on both devices.
    CHECK(gradient_of(model.left) == Values{(12 + 16) / 8.0, (12 + 16) / 8.0});
    CHECK(gradient_of(model.right) == Values{6, 6});
    CHECK(step.total_weight() == 8);
  });
  const SyncReport report = pair.sync.report();
  REQUIRE(report.steps.size() == 1);
  CHECK(report.steps.front().reductions.size() == 2);
}

TEST_CASE("gradient_sync: a local gradient that the user holds keeps its values when it is reduced") {
  Pair pair(kMean);
  run_devices(2, [&](std::size_t d) {
    auto& model = pair.replicas[d];
    auto step = pair.sync.step(test_device(d));
    Tensor held;
    {
      const NoSync local = step.no_sync();
      backward(use(model.right, 1.0 + d));
      held = model.right.grad();
    }
    step.backward(use(model.left, 1.0));
    CHECK(gradient_of(model.right) == Values{1.5, 1.5});
    CHECK(held.to_vector<double>() == Values{1.0 + d, 1.0 + d});
  });
}

TEST_CASE("gradient_sync: a no_sync scope without a backward adds no weight") {
  Pair pair;
  run_devices(2, [&](std::size_t d) {
    auto step = pair.sync.step(test_device(d), 2);
    { const NoSync local = step.no_sync(100); }
    step.backward(use(pair.replicas[d].left, 1.0));
    CHECK(step.total_weight() == 4);
  });
}

TEST_CASE("gradient_sync: zero_grad forgotten names the parameter, on all devices") {
  Pair pair(kMean);
  const auto errors = errors_of_devices(2, [&](std::size_t d) {
    for (int i = 0; i < 2; ++i) {
      auto step = pair.sync.step(test_device(d));
      step.backward(use(pair.replicas[d].right, 1.0));
    }
  });
  for (const std::string& error : errors) {
    CHECK_MESSAGE(error.find("right") != std::string::npos, error);
    CHECK_MESSAGE(error.find("zero_grad") != std::string::npos, error);
  }
}

TEST_CASE("gradient_sync: replicas that differ are refused with parameter, devices and values") {
  TwoBranches first;
  TwoBranches second = clone(first, test_device(1));
  SUBCASE("shape") {
    second.right = Tensor(Array::zeros({3}, DType::f64, test_device(1)), true);
    GradientSync sync(test_devices(2));
    sync.attach(test_device(), first);
    CHECK_THROWS_WITH_AS(sync.attach(test_device(1), second), doctest::Contains("right"), SyncError);
    try {
      sync.attach(test_device(1), second);
    } catch (const SyncError& error) {
      for (const char* part : {as_tested("cpu:0"), as_tested("cpu:1"), "[2]", "[3]"})
        CHECK_MESSAGE(std::string(error.what()).find(part) != std::string::npos, error.what());
    }
  }
  SUBCASE("dtype") {
    second.right = Tensor(Array::zeros({2}, DType::f32, test_device(1)), true);
    GradientSync sync(test_devices(2));
    sync.attach(test_device(), first);
    CHECK_THROWS_WITH_AS(sync.attach(test_device(1), second), doctest::Contains("f32"), SyncError);
  }
}

TEST_CASE("gradient_sync: devices leave at different times and the others go on") {
  Pair pair({}, 3);
  run_devices(3, [&](std::size_t d) {
    auto& model = pair.replicas[d];
    const int steps = d == 0 ? 2 : d == 1 ? 5 : 9;
    for (int i = 0; i < steps; ++i) {
      model.zero_grad();
      auto step = pair.sync.step(test_device(d), 1);
      step.backward(use(model.left, d + 1.0));
      const double expected = i < 2 ? 2.0 : i < 5 ? 2.5 : 3.0;
      CHECK(gradient_of(model.left) == Values{expected, expected});
    }
    pair.sync.leave(test_device(d));
  });
}

TEST_CASE("gradient_sync: a device that left can follow the others' results") {
  Pair pair;
  run_devices(2, [&](std::size_t d) {
    auto& model = pair.replicas[d];
    if (d == 0) {
      pair.sync.leave(test_device(), Follow::yes);
      int followed = 0;
      while (pair.sync.follow(test_device())) {
        CHECK(gradient_of(model.left) == Values{static_cast<double>(followed), static_cast<double>(followed)});
        model.zero_grad();
        ++followed;
      }
      CHECK(followed == 4);
    } else {
      for (int i = 0; i < 4; ++i) {
        model.zero_grad();
        auto step = pair.sync.step(test_device(1), 1);
        step.backward(use(model.left, i));
      }
      pair.sync.leave(test_device(1));
    }
  });
}

TEST_CASE("gradient_sync: backward in a step refuses create_graph and names both") {
  Pair pair;
  auto step = pair.sync.step(test_device());
  CHECK_THROWS_WITH_AS(step.backward(use(pair.replicas[0].left, 1.0), {.create_graph = true}),
                       doctest::Contains("create_graph"), AutodiffError);
  step.fail(std::make_exception_ptr(SyncError("given up")));
}

TEST_CASE("gradient_sync: replicas may come long after the group, with deadlines watched and devices busy") {
  GradientSync sync(
      test_devices(2),
      {.reduction = GradientReduction::mean, .warn_after = std::chrono::milliseconds(8), .warn = [](auto&) {}});
  sync.busy(test_device(), "building its model");
  std::this_thread::sleep_for(std::chrono::milliseconds(30));  // several looks at the deadlines
  auto replicas = sync.replicate(TwoBranches{});
  run_devices(2, [&](std::size_t d) {
    auto step = sync.step(test_device(d));
    step.backward(use(replicas[d].right, d == 0 ? 1.0 : 3.0));
    CHECK(gradient_of(replicas[d].right) == Values{2, 2});
  });
}
