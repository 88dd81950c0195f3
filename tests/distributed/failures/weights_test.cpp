// SPDX-License-Identifier: Apache-2.0
// How many examples a device's loss is of: none, or a number that is refused.
#include <tutti/distributed/gradient_sync.h>

#include <tutti/backend/error.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/two_branches.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <limits>
#include <string>

using namespace tutti;
using namespace tutti::testing;

namespace {

struct Pair {
  explicit Pair(SyncOptions options = {})
      : sync(test_devices(2), std::move(options)), replicas(sync.replicate(TwoBranches{})) {}
  GradientSync sync;
  std::vector<TwoBranches> replicas;
};

}  // namespace

TEST_CASE("weights: weight 0 contributes zeros, never a product") {
  Pair pair;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  run_devices(2, [&](std::size_t d) {
    auto step = pair.sync.step(test_device(d), d == 0 ? 5 : 0);
    step.backward(use(pair.replicas[d].left, d == 0 ? 3.0 : nan));
    CHECK(gradient_of(pair.replicas[d].left) == Values{3, 3});
  });
}

TEST_CASE("weights: no examples anywhere leaves gradients undefined and says so") {
  Pair pair;
  run_devices(2, [&](std::size_t d) {
    auto step = pair.sync.step(test_device(d), 0);
    step.backward(use(pair.replicas[d].left, 3.0));
    CHECK(gradient_of(pair.replicas[d].left).empty());
    CHECK(step.skipped());
  });
}

TEST_CASE("weights: a weight that is negative or not finite is refused, and the others hear of it at once") {
  using Limits = std::numeric_limits<double>;
  const std::function<void(GradientSync&, double)> places[] = {
      [](GradientSync& sync, double weight) { (void)sync.step(test_device(), weight); },
      [](GradientSync& sync, double weight) {
        auto step = sync.step(test_device());
        CHECK_THROWS_AS(step.set_weight(weight), SyncError);
        step.join();
      },
      [](GradientSync& sync, double weight) {
        auto step = sync.step(test_device());
        CHECK_THROWS_AS((void)step.no_sync(weight), SyncError);
        step.join();
      },
  };
  for (const auto& refused_at : places)
    for (const double weight : {-1.0, Limits::quiet_NaN(), Limits::infinity()}) {
      CAPTURE(&refused_at - places);
      CAPTURE(weight);
      Pair pair({.fail_after = std::chrono::seconds(20)});
      const auto began = std::chrono::steady_clock::now();
      const auto errors = errors_of_devices(2, [&](std::size_t d) {
        if (d == 0) return refused_at(pair.sync, weight);
        auto step = pair.sync.step(test_device(1));
        step.backward(use(pair.replicas[1].left, 1.0));
      });
      for (const std::string& error : errors) {
        CHECK_MESSAGE(error.find("weight") != std::string::npos, error);
        CHECK_MESSAGE(error.find(as_tested("cpu:0")) != std::string::npos, error);
      }
      CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(10));
    }
}

TEST_CASE("weights: after a refused weight all join again and go on") {
  Pair pair;
  run_devices(2, [&](std::size_t d) {
    CHECK_THROWS_AS(
        [&] {
          auto step = pair.sync.step(test_device(d), d == 0 ? -1.0 : 1.0);
          step.backward(use(pair.replicas[d].left, 1.0));
        }(),
        SyncError);
    pair.sync.rejoin(test_device(d), 0);
    auto step = pair.sync.step(test_device(d));
    step.backward(use(pair.replicas[d].left, d == 0 ? 1.0 : 3.0));
    CHECK(gradient_of(pair.replicas[d].left) == Values{2, 2});
  });
}
