// SPDX-License-Identifier: Apache-2.0
// Overlap::double_buffered: each optimizer step uses the gradients of the step before, none is lost, and waiting for
// slow devices overlaps with the next forward.
#include <tutti/distributed/gradient_sync.h>

#include <tutti/backend/error.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/two_branches.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

using namespace tutti;
using namespace tutti::testing;
using std::chrono::milliseconds;

namespace {

constexpr double kRate = 0.1;

struct Training {
  explicit Training(std::size_t devices, SyncOptions options = {}) {
    options.overlap = Overlap::double_buffered;
    sync = std::make_unique<GradientSync>(test_devices(devices), options);
    replicas = sync->replicate(TwoBranches{});
    for (TwoBranches& replica : replicas) optimizers.push_back(std::make_unique<Sgd>(replica.parameters(), kRate));
  }
  // The gradient depends on the parameter, so that it matters when which one is applied.
  Tensor loss(std::size_t d) const {
    return sum(square(replicas[d].left)) * (1.0 + static_cast<double>(d)) + sum(replicas[d].right * 2.0);
  }
  void step(std::size_t d) {
    optimizers[d]->zero_grad();
    auto step = sync->step(test_device(d));
    step.backward(loss(d));
    optimizers[d]->step();
  }
  std::unique_ptr<GradientSync> sync;
  std::vector<TwoBranches> replicas;
  std::vector<std::unique_ptr<Sgd>> optimizers;
};

// left after `steps` steps of the mean gradient 2 p (1 + 2) / 2 = 3 p, each applied one step late, the last by a flush.
Values expected_left(int steps) {
  Values p{1, 2};
  Values late{0, 0};
  for (int i = 0; i < steps; ++i) {
    const Values gradient{3 * p[0], 3 * p[1]};
    for (std::size_t k = 0; k < 2; ++k) p[k] -= kRate * late[k];
    late = gradient;
  }
  for (std::size_t k = 0; k < 2; ++k) p[k] -= kRate * late[k];
  return p;
}

}  // namespace

TEST_CASE("double_buffering: every gradient is applied once, one step late, the last by flush") {
  Training training(2);
  run_devices(2, [&](std::size_t d) {
    for (int i = 0; i < 7; ++i) training.step(d);
    CHECK(training.sync->flush(test_device(d)));
    training.optimizers[d]->step();
    CHECK_FALSE(training.sync->flush(test_device(d)));
    training.sync->leave(test_device(d));
  });
  const Values expected = expected_left(7);
  for (const TwoBranches& replica : training.replicas) {
    const Values left = replica.left.to_vector<double>();
    for (std::size_t k = 0; k < 2; ++k) CHECK(left[k] == doctest::Approx(expected[k]).epsilon(1e-12));
    CHECK(replica.right.to_vector<double>()[0] == doctest::Approx(3 - 7 * kRate * 2));
  }
}

TEST_CASE("double_buffering: the first step has no gradients, and says so") {
  Training training(2);
  run_devices(2, [&](std::size_t d) {
    auto step = training.sync->step(test_device(d));
    step.backward(training.loss(d));
    CHECK(step.skipped());
    CHECK(gradient_of(training.replicas[d].left).empty());
  });
}

TEST_CASE("double_buffering: the next forward runs while a slow device still computes") {
  Training training(2);
  std::atomic<bool> fast_is_ahead{false};
  run_devices(2, [&](std::size_t d) {
    if (d == 0) {
      training.step(0);
      const Tensor next = training.loss(0);  // the forward of step 2, before device 1 has done anything in step 1
      fast_is_ahead = true;
      training.optimizers[0]->zero_grad();
      auto step = training.sync->step(test_device());
      step.backward(next);
      CHECK(gradient_of(training.replicas[0].left) == Values{3, 6});
    } else {
      while (!fast_is_ahead) std::this_thread::yield();
      training.step(1);
      training.step(1);
    }
  });
}

TEST_CASE("double_buffering: one thread drives two devices") {
  Training training(2);
  for (int i = 0; i < 4; ++i) {
    for (auto& optimizer : training.optimizers) optimizer->zero_grad();
    auto first = training.sync->step(test_device());
    auto second = training.sync->step(test_device(1));
    first.backward_async(training.loss(0));
    second.backward_async(training.loss(1));
    join_all(first, second);
    for (auto& optimizer : training.optimizers) optimizer->step();
  }
  for (const std::uint16_t d : {0, 1}) {
    CHECK(training.sync->flush(test_device(d)));
    training.optimizers[d]->step();
  }
  const Values expected = expected_left(4);
  CHECK(training.replicas[1].left.to_vector<double>()[1] == doctest::Approx(expected[1]).epsilon(1e-12));
}

TEST_CASE(
    "double_buffering: micro-batches accumulate beside the gradients that are on their way, reduced once a step") {
  Training training(2, {.reduction = GradientReduction::mean});
  constexpr int kSteps = 4;
  run_devices(2, [&](std::size_t d) {
    const double own = d == 0 ? 1.0 : 3.0;  // their mean is 2
    for (int i = 1; i <= kSteps; ++i) {
      training.optimizers[d]->zero_grad();
      auto step = training.sync->step(test_device(d));
      {
        const NoSync local = step.no_sync();
        backward(use(training.replicas[d].left, own * i));
        CHECK(gradient_of(training.replicas[d].left) == Values{own * i, own * i});
        backward(use(training.replicas[d].right, own * 10 * i));
      }
      step.backward(use(training.replicas[d].left, own * 100 * i));
      const double before = 2.0 * (i - 1);
      if (i > 1) CHECK(gradient_of(training.replicas[d].left) == Values{101 * before, 101 * before});
      if (i > 1) CHECK(gradient_of(training.replicas[d].right) == Values{10 * before, 10 * before});
    }
    CHECK(training.sync->flush(test_device(d)));
    CHECK(gradient_of(training.replicas[d].left) == Values{2.0 * 101 * kSteps, 2.0 * 101 * kSteps});
  });
  const SyncReport report = training.sync->report();
  REQUIRE(report.steps.size() == kSteps);  // three backwards each, and one round
  for (const SyncReport::Step& step : report.steps) CHECK(step.reductions.size() == 2);
}

TEST_CASE("double_buffering: leaving with gradients on their way is refused, so that none is lost") {
  Training training(2);
  run_devices(2, [&](std::size_t d) {
    training.step(d);
    CHECK_THROWS_WITH_AS(training.sync->leave(test_device(d)), doctest::Contains("flush"), SyncError);
    CHECK(training.sync->flush(test_device(d)));
    training.sync->leave(test_device(d));
  });
}

TEST_CASE("double_buffering: what the user holds keeps its values") {
  Training training(2, {.reduction = GradientReduction::mean});
  run_devices(2, [&](std::size_t d) {
    std::vector<Tensor> held;
    for (int i = 0; i < 8; ++i) {
      training.optimizers[d]->zero_grad();
      auto step = training.sync->step(test_device(d));
      step.backward(use(training.replicas[d].left, i));
      if (i > 0) held.push_back(training.replicas[d].left.grad());
    }
    for (std::size_t i = 0; i < held.size(); ++i)
      CHECK(held[i].to_vector<double>() == Values{static_cast<double>(i), static_cast<double>(i)});
  });
}

TEST_CASE("double_buffering: a failure reaches all, and training goes on after rejoin") {
  Training training(2);
  const auto errors = errors_of_devices(2, [&](std::size_t d) {
    training.step(d);
    training.step(d);
    if (d == 1) {
      auto step = training.sync->step(test_device(1));
      throw std::runtime_error("burnt");
    }
    for (int i = 0; i < 3; ++i) training.step(0);
  });
  CHECK_MESSAGE(errors[0].find(as_tested("cpu:1")) != std::string::npos, errors[0]);
  for (std::uint16_t d = 0; d < 2; ++d) training.sync->attach(test_device(d), *training.optimizers[d]);
  run_devices(2, [&](std::size_t d) {
    training.sync->rejoin(test_device(d), training.optimizers[d]->steps());
    for (int i = 0; i < 3; ++i) training.step(d);
    CHECK(training.sync->flush(test_device(d)));
    training.optimizers[d]->step();
  });
  CHECK(training.replicas[0].left.to_vector<double>() == training.replicas[1].left.to_vector<double>());
}

TEST_CASE("double_buffering: replicas are compared at the same version") {
  SyncOptions options;
  options.consistency_every = 1;
  Training training(3, options);
  run_devices(3, [&](std::size_t d) {
    for (int i = 0; i < 10; ++i) training.step(d);
  });
}
