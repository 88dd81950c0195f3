// SPDX-License-Identifier: Apache-2.0
// What happens when a device fails, differs, or never arrives: everybody gets an error that names it, and the group can
// be formed anew.
#include <tutti/distributed/gradient_sync.h>

#include <tutti/autodiff/custom_function.h>
#include <tutti/backend/error.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/two_branches.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <stdexcept>
#include <thread>

using namespace tutti;
using namespace tutti::testing;
using std::chrono::milliseconds;

namespace {

const SyncOptions kMean{.reduction = GradientReduction::mean};

// Its forward is the identity, its backward throws.
Tensor failing_backward(const Tensor& x) {
  return custom_function(
      "failing", {x}, [](std::span<const Array> inputs) { return inputs[0].copy(); },
      [](std::span<const Array>, const Array&, const Array&) -> std::vector<Array> {
        throw std::runtime_error("backward burnt");
      });
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("failure: a device that throws in forward fails the others at once and is named") {
  GradientSync sync(test_devices(3), kMean);
  auto replicas = sync.replicate(TwoBranches{});
  const auto errors = errors_of_devices(3, [&](std::size_t d) {
    auto step = sync.step(test_device(d));
    if (d == 1) throw std::runtime_error("forward burnt");
    step.backward(use(replicas[d].left, 1.0));
  });
  CHECK(errors[1] == "forward burnt");
  CHECK_MESSAGE(contains(errors[0], as_tested("cpu:1")), errors[0]);
  CHECK_MESSAGE(contains(errors[2], as_tested("cpu:1")), errors[2]);
  CHECK_THROWS_WITH_AS(gradient_of(replicas[0].left), doctest::Contains(as_tested("cpu:1")), SyncError);
}

TEST_CASE("failure: a device that throws in mid-backward fails the others with its message") {
  GradientSync sync(test_devices(2), kMean);
  auto replicas = sync.replicate(TwoBranches{});
  const auto errors = errors_of_devices(2, [&](std::size_t d) {
    auto step = sync.step(test_device(d));
    const Tensor left = d == 1 ? failing_backward(replicas[d].left) : replicas[d].left;
    step.backward(use(left, 1.0) + use(replicas[d].right, 1.0));
  });
  CHECK_MESSAGE(contains(errors[1], "backward burnt"), errors[1]);
  CHECK_MESSAGE(contains(errors[0], as_tested("cpu:1")), errors[0]);
  CHECK_MESSAGE(contains(errors[0], "backward burnt"), errors[0]);
}

TEST_CASE("failure: a device that never arrives is named with what is missing, first warned, then failed") {
  std::mutex mutex;
  std::vector<std::string> warnings;
  SyncOptions options = kMean;
  options.warn_after = milliseconds(50);
  options.fail_after = milliseconds(300);
  options.warn = [&](const std::string& text) {
    const std::lock_guard lock(mutex);
    warnings.push_back(text);
  };
  GradientSync sync(test_devices(3), options);
  auto replicas = sync.replicate(TwoBranches{});
  sync.busy(test_device(2), "evaluating");
  const auto errors = errors_of_devices(2, [&](std::size_t d) {
    auto step = sync.step(test_device(d));
    step.backward(use(replicas[d].left, 1.0));
  });
  for (const std::string& error : errors) CHECK_MESSAGE(contains(error, as_tested("cpu:2")), error);
  const std::lock_guard lock(mutex);
  REQUIRE(warnings.size() >= 1);
  CHECK_MESSAGE(contains(warnings[0], as_tested("cpu:2")), warnings[0]);
  CHECK_MESSAGE(contains(warnings[0], "evaluating"), warnings[0]);
}

TEST_CASE("failure: a warning that cannot be told fails nobody") {
  SyncOptions options = kMean;
  options.warn_after = milliseconds(30);
  std::atomic<bool> warned{false};
  options.warn = [&](const std::string&) {
    warned = true;
    throw std::runtime_error("log is full");
  };
  GradientSync sync(test_devices(2), options);
  auto replicas = sync.replicate(TwoBranches{});
  run_devices(2, [&](std::size_t d) {
    while (d == 1 && !warned) std::this_thread::sleep_for(milliseconds(1));
    auto step = sync.step(test_device(d));
    step.backward(use(replicas[d].left, 1.0));
  });
}

TEST_CASE("failure: a follower that waits for a device that never arrives hears its name") {
  SyncOptions options = kMean;
  options.warn_after = milliseconds(50);
  options.fail_after = milliseconds(200);
  options.warn = [](const std::string&) {};
  GradientSync sync(test_devices(2), options);
  auto replicas = sync.replicate(TwoBranches{});
  sync.leave(test_device(), Follow::yes);
  CHECK_THROWS_WITH_AS(sync.follow(test_device()), doctest::Contains(as_tested("cpu:1")), SyncError);
}

TEST_CASE("failure: a device that stops in mid-backward is named with the parameter it owes") {
  SyncOptions options = kMean;
  options.warn_after = milliseconds(50);
  options.fail_after = milliseconds(300);
  options.warn = [](const std::string&) {};
  GradientSync sync(test_devices(2), options);
  auto replicas = sync.replicate(TwoBranches{});
  std::atomic<bool> other_failed{false};
  const auto stall = [&](const Tensor& x) {
    return custom_function(
        "stall", {x}, [](std::span<const Array> inputs) { return inputs[0].copy(); },
        [&](std::span<const Array>, const Array&, const Array& gradient) -> std::vector<Array> {
          while (!other_failed.load()) std::this_thread::sleep_for(milliseconds(1));
          return {gradient};
        });
  };
  const auto errors = errors_of_devices(2, [&](std::size_t d) {
    auto step = sync.step(test_device(d));
    if (d == 0) {
      try {
        step.backward(use(replicas[0].left, 1.0));
      } catch (...) {
        other_failed = true;
        throw;
      }
    } else {
      step.backward(use(stall(replicas[1].left), 1.0));
    }
  });
  CHECK_MESSAGE(contains(errors[0], "left"), errors[0]);
  CHECK_MESSAGE(contains(errors[0], as_tested("cpu:1")), errors[0]);
  CHECK_FALSE(errors[1].empty());
}

TEST_CASE("failure: a step without a backward is an error to all, not a hang") {
  GradientSync sync(test_devices(2), kMean);
  auto replicas = sync.replicate(TwoBranches{});
  const auto errors = errors_of_devices(2, [&](std::size_t d) {
    auto step = sync.step(test_device(d));
    if (d == 0) step.backward(use(replicas[0].left, 1.0));
  });
  CHECK_MESSAGE(contains(errors[0], as_tested("cpu:1")), errors[0]);
  CHECK_MESSAGE(contains(errors[0], "without"), errors[0]);
}

TEST_CASE("failure: later steps get the old group's error until all have joined again") {
  GradientSync sync(test_devices(2), kMean);
  auto replicas = sync.replicate(TwoBranches{});
  (void)errors_of_devices(2, [&](std::size_t d) {
    auto step = sync.step(test_device(d));
    if (d == 1) throw std::runtime_error("burnt");
    step.backward(use(replicas[d].left, 1.0));
  });
  CHECK_THROWS_WITH_AS((void)sync.step(test_device()), doctest::Contains(as_tested("cpu:1")), SyncError);
}

TEST_CASE("failure: after rejoin the device behind has parameters and optimizer state of the one ahead") {
  GradientSync sync(test_devices(2), kMean);
  auto replicas = sync.replicate(TwoBranches{});
  std::vector<std::unique_ptr<Sgd>> optimizers;
  for (std::size_t d = 0; d < 2; ++d) {
    optimizers.push_back(std::make_unique<Sgd>(replicas[d].parameters(), 0.5, SgdOptions{.momentum = 0.9}));
    sync.attach(test_device(d), *optimizers[d]);
  }
  const auto train = [&](std::size_t d, int i) {
    optimizers[d]->zero_grad();
    auto step = sync.step(test_device(d));
    step.backward(use(replicas[d].left, i + 1.0) + use(replicas[d].right, d + 1.0));
    if (d == 1 && i == 2) throw std::runtime_error("burnt between join and step");
    optimizers[d]->step();
  };
  (void)errors_of_devices(2, [&](std::size_t d) {
    for (int i = 0; i < 5; ++i) train(d, i);
  });
  CHECK(optimizers[0]->steps() > optimizers[1]->steps());
  run_devices(2, [&](std::size_t d) {
    sync.rejoin(test_device(d), optimizers[d]->steps());
    CHECK(optimizers[d]->steps() == 3);
    for (int i = 3; i < 5; ++i) train(d, i);
  });
  CHECK(sync.group_number() == 2);
  CHECK(replicas[0].left.to_vector<double>() == replicas[1].left.to_vector<double>());
  CHECK(replicas[0].right.to_vector<double>() == replicas[1].right.to_vector<double>());
}

namespace {

/// Two devices that apply one step; in the second, which is committed, cpu:0 throws before its update. cpu:1 applies
/// it, if `applies`, and leaves.
struct LeftAhead {
  explicit LeftAhead(bool applies, Follow follow = Follow::no)
      : sync(test_devices(2), kMean), replicas(sync.replicate(TwoBranches{})) {
    run_devices(2, [&](std::size_t d) {
      train(d, 1.0, true);
      train(d, 2.0, d == 1 && applies);
      if (d == 0) sync.fail(test_device(), std::make_exception_ptr(std::runtime_error("disk full")));
      if (d == 1) sync.leave(test_device(1), follow);
    });
  }

  void train(std::size_t d, double input, bool applies) {
    replicas[d].zero_grad();
    auto step = sync.step(test_device(d));
    step.backward(use(replicas[d].left, input));
    if (applies) Sgd(replicas[d].parameters(), 0.5).step();
  }

  GradientSync sync;
  std::vector<TwoBranches> replicas;
};

}  // namespace

TEST_CASE("failure: a committed step that one that left has applied is not taken again by the others") {
  for (const Follow follow : {Follow::no, Follow::yes}) {
    LeftAhead group(true, follow);
    for (int again = 0; again < 2; ++again)
      CHECK_THROWS_WITH_AS(group.sync.rejoin(test_device(), 1),
                           doctest::Contains(as_tested("cpu:1 has applied step 2 and left")), SyncError);
    Array loaded = group.replicas[0].left.array();
    loaded.copy_from(group.replicas[1].left.array().to(test_device()));  // as from a checkpoint
    group.sync.rejoin(test_device(), 2);
    group.train(0, 3.0, true);
  }
}

TEST_CASE("failure: a step that was committed before a device joined it is taken up from a checkpoint") {
  GradientSync sync(test_devices(2), kMean);
  auto replicas = sync.replicate(TwoBranches{});
  std::atomic<bool> has_left{false};
  run_devices(2, [&](std::size_t d) {
    auto step = sync.step(test_device(d));
    step.backward_async(use(replicas[d].left, 1.0));
    if (d == 1) {
      step.join();
      Sgd(replicas[1].parameters(), 0.5).step();
      sync.leave(test_device(1));
      has_left = true;
      return;
    }
    while (!has_left) std::this_thread::yield();
    step.fail(std::make_exception_ptr(std::runtime_error("disk full")));
  });
  CHECK_THROWS_WITH_AS(sync.rejoin(test_device(), 0), doctest::Contains(as_tested("cpu:1 has applied step 1 and left")),
                       SyncError);
  Array loaded = replicas[0].left.array();
  loaded.copy_from(replicas[1].left.array().to(test_device()));  // as from a checkpoint
  sync.rejoin(test_device(), 1);
  auto step = sync.step(test_device());
  step.backward(use(replicas[0].left, 2.0));
}

TEST_CASE("failure: a committed step that nobody has applied may be taken again, also without one that left") {
  LeftAhead group(false);
  group.sync.rejoin(test_device(), 1);
  group.train(0, 2.0, true);
}

TEST_CASE("failure: devices that have applied what one that left has applied go on without it") {
  GradientSync sync(test_devices(3), kMean);
  auto replicas = sync.replicate(TwoBranches{});
  const auto train = [&](std::size_t d, bool applies) {
    replicas[d].zero_grad();
    auto step = sync.step(test_device(d));
    step.backward(use(replicas[d].left, 1.0));
    if (applies) Sgd(replicas[d].parameters(), 0.5).step();
  };
  run_devices(3, [&](std::size_t d) {
    train(d, d != 0);
    if (d == 1) sync.leave(test_device(1));
  });
  sync.fail(test_device(), std::make_exception_ptr(std::runtime_error("disk full")));
  run_devices(3, [&](std::size_t d) {
    if (d != 1) sync.rejoin(test_device(d), d == 0 ? 0 : 1);
    if (d != 1) train(d, true);
  });
  CHECK(replicas[0].left.to_vector<double>() == replicas[2].left.to_vector<double>());
}

TEST_CASE("failure: one that waits to join again hears of it when one that has applied more leaves") {
  GradientSync sync(test_devices(2), kMean);
  auto replicas = sync.replicate(TwoBranches{});
  std::atomic<bool> failed{false};
  const auto errors = errors_of_devices(2, [&](std::size_t d) {
    {
      auto step = sync.step(test_device(d));
      step.backward(use(replicas[d].left, 1.0));
    }
    if (d == 0) {
      sync.fail(test_device(), std::make_exception_ptr(std::runtime_error("disk full")));
      failed = true;
      return sync.rejoin(test_device(), 0);
    }
    Sgd(replicas[1].parameters(), 0.5).step();
    while (!failed) std::this_thread::yield();
    std::this_thread::sleep_for(milliseconds(30));
    sync.leave(test_device(1));
  });
  CHECK_MESSAGE(contains(errors[0], as_tested("cpu:1 has applied step 1 and left")), errors[0]);
  CHECK(errors[1].empty());
}

TEST_CASE("failure: rejoin names who is missing") {
  SyncOptions options = kMean;
  options.warn_after = milliseconds(40);
  options.fail_after = milliseconds(150);
  options.warn = [](const std::string&) {};
  GradientSync sync(test_devices(2), options);
  auto replicas = sync.replicate(TwoBranches{});
  (void)errors_of_devices(2, [&](std::size_t d) {
    auto step = sync.step(test_device(d));
    if (d == 1) throw std::runtime_error("burnt");
    step.backward(use(replicas[d].left, 1.0));
  });
  CHECK_THROWS_WITH_AS(sync.rejoin(test_device(), 0), doctest::Contains(as_tested("cpu:1")), SyncError);
}

TEST_CASE("failure: closing while a device waits fails its wait") {
  auto sync = std::make_unique<GradientSync>(test_devices(2), kMean);
  auto replicas = sync->replicate(TwoBranches{});
  std::string error;
  std::atomic<bool> waits{false};
  std::thread waiting([&] {
    auto step = sync->step(test_device());
    try {
      step.backward_async(use(replicas[0].left, 1.0));
      waits = true;
      step.join();
    } catch (const SyncError& caught) {
      error = caught.what();
    }
  });
  while (!waits) std::this_thread::yield();
  sync->close();
  waiting.join();
  CHECK_MESSAGE(contains(error, "closed"), error);
  CHECK_THROWS_AS((void)sync->step(test_device(1)), SyncError);
}

// The identity of a thread that has ended is given to the next one, which then drives another device.
TEST_CASE("failure: a device's wait is not refused for what an ended thread drove") {
  GradientSync sync(test_devices(2), kMean);
  auto replicas = sync.replicate(TwoBranches{});
  for (std::size_t i = 0; i < 20; ++i) {
    for (auto& replica : replicas) replica.zero_grad();
    const auto errors = errors_of_devices(2, [&](std::size_t thread) {
      const std::size_t d = (thread + i) % 2;
      if (thread == 1) std::this_thread::sleep_for(milliseconds(2));  // the first one waits
      auto step = sync.step(test_device(d));
      step.backward(use(replicas[d].left, 1.0));
    });
    REQUIRE(errors == std::vector<std::string>{"", ""});
  }
}
