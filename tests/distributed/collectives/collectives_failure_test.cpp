// SPDX-License-Identifier: Apache-2.0
// Collectives that do not match, never come, or are cut off: every device gets an error that says why; none hangs.
#include <tutti/distributed/gradient_sync.h>

#include <tutti/autodiff/custom_function.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/two_branches.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>

using namespace tutti;
using namespace tutti::testing;
using std::chrono::milliseconds;

namespace {

Device device(std::size_t d) { return test_device(d); }

Tensor zeros(std::size_t d, const Shape& shape, DType dtype = DType::f32) {
  return Tensor(Array::zeros(shape, dtype, device(d)));
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

SyncOptions impatient() {
  SyncOptions options{.reduction = GradientReduction::mean};
  options.warn_after = milliseconds(50);
  options.fail_after = milliseconds(250);
  options.warn = [](const std::string&) {};
  return options;
}

using Ask = std::function<PendingTensor(GradientSync&, std::size_t d)>;

// Device 0 asks for `one`, device 1 for `other`, after one collective that fits; device 2 for either.
void check_mismatch(const Ask& one, const Ask& other, const std::string& text_of_one,
                    const std::string& text_of_other) {
  for (const std::size_t count : {2, 3}) {
    GradientSync sync(test_devices(count));
    const auto errors = errors_of_devices(count, [&](std::size_t d) {
      sync.barrier(device(d));
      (d == 1 ? other : one)(sync, d).resolve();
    });
    for (const std::string& error : errors) {
      CHECK_MESSAGE(contains(error, "collective 2 is"), error);
      CHECK_MESSAGE(contains(error, text_of_one), error);
      CHECK_MESSAGE(contains(error, text_of_other), error);
      CHECK_MESSAGE(contains(error, as_tested(" on cpu:1")), error);
    }
  }
}

Ask all_reduce_of(Shape shape, DType dtype = DType::f32, CollectiveOperation operation = CollectiveOperation::sum) {
  return
      [=](GradientSync& sync, std::size_t d) { return sync.all_reduce(device(d), zeros(d, shape, dtype), operation); };
}

}  // namespace

TEST_CASE("collectives, failure: what differs between devices is named to all of them") {
  const Ask plain = all_reduce_of({4});
  check_mismatch(plain, all_reduce_of({5}), "all_reduce sum [4] f32", "all_reduce sum [5] f32");
  check_mismatch(plain, all_reduce_of({4}, DType::f64), "[4] f32", "[4] f64");
  check_mismatch(plain, all_reduce_of({4}, DType::f32, CollectiveOperation::max), "all_reduce sum",
                 "all_reduce max [4] f32");
  const auto gather = [](Shape shape) -> Ask {
    return [=](GradientSync& sync, std::size_t d) { return sync.all_gather(device(d), zeros(d, shape)); };
  };
  check_mismatch(plain, gather({4}), "all_reduce", "all_gather [4] f32");
  check_mismatch(gather({4, 2}), gather({4, 3}), "all_gather [4, 2] f32", "all_gather [4, 3] f32");
  const auto from = [](std::size_t root) -> Ask {
    return [=](GradientSync& sync, std::size_t d) { return sync.broadcast(device(d), zeros(d, {4}), device(root)); };
  };
  check_mismatch(from(0), from(1), as_tested("broadcast from cpu:0 [4] f32"),
                 as_tested("broadcast from cpu:1 [4] f32"));
  const auto scatter = [](std::int64_t first) -> Ask {
    return [=](GradientSync& sync, std::size_t d) {
      std::vector<std::int64_t> parts(sync.devices().size(), 0);
      parts[0] = first;
      parts[1] = 4 - first;
      return sync.reduce_scatter(device(d), zeros(d, {4}), CollectiveOperation::sum, parts);
    };
  };
  check_mismatch(scatter(2), scatter(3), "in parts [2, 2", "reduce_scatter sum [4] f32 in parts [3, 1");
}

TEST_CASE("collectives, failure: a call that no group could do throws before it is posted") {
  GradientSync sync(test_devices(2));
  run_devices(2, [&](std::size_t d) {
    const Tensor integers = zeros(d, {4}, DType::i64);
    CHECK_THROWS_AS((void)sync.all_reduce(device(d), integers, CollectiveOperation::mean), DTypeError);
    CHECK_THROWS_AS((void)sync.all_reduce(device(d), zeros(d, {1}, DType::boolean)), DTypeError);
    CHECK_THROWS_AS((void)sync.all_gather(device(d), zeros(d, {})), ShapeError);
    CHECK_THROWS_AS((void)sync.all_to_all(device(d), zeros(d, {4}), {1, 2}), ShapeError);
    CHECK_THROWS_AS((void)sync.all_to_all(device(d), zeros(d, {4}), {5, -1}), ShapeError);
    CHECK_THROWS_AS((void)sync.all_reduce(device(d), zeros(1 - d, {4})), DeviceError);
    CHECK_THROWS_WITH_AS((void)sync.broadcast(device(d), zeros(d, {4}), test_device(7)),
                         doctest::Contains(as_tested("cpu:7")), SyncError);
    sync.barrier(device(d));
  });
}

TEST_CASE("collectives, failure: the deadline first warns, then names who has not posted what") {
  std::mutex mutex;
  std::vector<std::string> warnings;
  SyncOptions options = impatient();
  options.warn = [&](const std::string& text) {
    const std::lock_guard lock(mutex);
    warnings.push_back(text);
  };
  GradientSync sync(test_devices(4), options);
  sync.busy(test_device(2), "evaluating");
  sync.leave(test_device(3));
  const auto errors = errors_of_devices(3, [&](std::size_t d) {
    sync.busy(device(d), d == 2 ? "evaluating" : "");
    if (d < 2) sync.all_reduce(device(d), zeros(d, {4})).resolve();
  });
  const std::string expected = as_tested(
      "missing collective 1 (all_reduce sum [4] f32) from cpu:2 (busy: evaluating), cpu:3 (has left); posted by cpu:0, "
      "cpu:1");
  for (std::size_t d = 0; d < 2; ++d) CHECK_MESSAGE(contains(errors[d], expected), errors[d]);
  const std::lock_guard lock(mutex);
  REQUIRE(warnings.size() == 1);
  CHECK_MESSAGE(contains(warnings[0], expected), warnings[0]);
}

TEST_CASE("collectives, failure: a purpose is refused where it is too long, before anybody waits") {
  GradientSync sync(test_devices(2), impatient());
  CHECK_THROWS_WITH_AS(sync.barrier(device(0), std::string(201, 'p')),
                       "[barrier] its purpose has 201 bytes: at most 200", SyncError);
  const auto errors = errors_of_devices(2, [&](std::size_t d) { sync.barrier(device(d), std::string(200, 'p')); });
  for (const std::string& error : errors) CHECK(error == "");
}

TEST_CASE("collectives, failure: the number that is missing is counted from the device's first") {
  GradientSync sync(test_devices(2), impatient());
  const auto errors = errors_of_devices(2, [&](std::size_t d) {
    for (std::size_t i = 0; i < 3 - d; ++i) sync.all_reduce(device(d), zeros(d, {4})).resolve();
  });
  CHECK_MESSAGE(contains(errors[0], as_tested("missing collective 3 (all_reduce sum [4] f32) from cpu:1")), errors[0]);
  CHECK(errors[1] == "");
}

TEST_CASE("collectives, failure: close answers who waits, and later posts") {
  GradientSync sync(test_devices(3));
  const auto errors = errors_of_devices(3, [&](std::size_t d) {
    if (d == 2) {
      std::this_thread::sleep_for(milliseconds(20));
      sync.close();
    }
    sync.all_reduce(device(d), zeros(d, {4})).resolve();
  });
  for (const std::string& error : errors) CHECK_MESSAGE(contains(error, "closed"), error);
}

TEST_CASE("collectives, failure: a pending one outlives its group") {
  std::optional<PendingTensor> matched;
  std::optional<PendingTensor> alone;
  {
    GradientSync sync(test_devices(2));
    matched = sync.all_reduce(test_device(), Tensor(Array::full({2}, 1, DType::f64, test_device())));
    (void)sync.all_reduce(test_device(1), Tensor(Array::full({2}, 2, DType::f64, test_device(1))));
    alone = sync.all_reduce(test_device(), zeros(0, {2}));
  }
  CHECK(matched->resolve().to_vector<double>() == Values{3, 3});
  CHECK_THROWS_WITH_AS(alone->resolve(), doctest::Contains("closed"), SyncError);
}

TEST_CASE("collectives, failure: a device whose step is unwound fails the collectives that wait for it") {
  GradientSync sync(test_devices(2));
  const auto replicas = sync.replicate(TwoBranches{});
  const auto errors = errors_of_devices(2, [&](std::size_t d) {
    auto step = sync.step(device(d));
    if (d == 1) throw std::runtime_error("forward burnt");
    sync.all_reduce(device(d), zeros(d, {4})).resolve();
  });
  CHECK_MESSAGE(contains(errors[0], as_tested("cpu:1")), errors[0]);
  CHECK(errors[1] == "forward burnt");
}

TEST_CASE("collectives, failure: a backward that fails ends the others' wait inside theirs") {
  GradientSync sync(test_devices(2));
  const auto replicas = sync.replicate(TwoBranches{});
  const auto errors = errors_of_devices(2, [&](std::size_t d) {
    auto step = sync.step(device(d));
    Tensor y = sync.all_reduce(device(d), replicas[d].left).resolve();
    if (d == 1)
      y = custom_function(
          "failing", {y}, [](std::span<const Array> inputs) { return inputs[0].copy(); },
          [](std::span<const Array>, const Array&, const Array&) -> std::vector<Array> {
            throw std::runtime_error("backward burnt");
          });
    step.backward(sum(y));
  });
  CHECK_MESSAGE(contains(errors[0], as_tested("cpu:1 failed in generation 1: backward burnt")), errors[0]);
  CHECK(errors[1] == "backward burnt");
}

// Inline the kernel throws where it is called; on a worker the collective finds the stream's error. Nobody hangs. CUDA
// devices tell of it later, when the collective has been launched.
TEST_CASE("collectives, failure: an input that could not be computed is an error on every device" *
          doctest::test_suite("cpu")) {
  GradientSync sync(test_devices(2));
  const auto replicas = sync.replicate(TwoBranches{});
  const auto errors = errors_of_devices(2, [&](std::size_t d) {
    auto step = sync.step(device(d));
    const Tensor index(Array::full({2}, d == 0 ? 7 : 1, DType::i64, device(d)));
    sync.all_reduce(device(d), gather(replicas[d].left, 0, index)).resolve();
    step.synchronize();
  });
  CHECK_MESSAGE(contains(errors[0], "gather"), errors[0]);
  CHECK(errors[1] != "");
  try {
    synchronize(test_device());
  } catch (const ShapeError&) {
    // the next test begins with a stream that works
  }
}

TEST_CASE("collectives, failure: a thread does not wait for another device that it drives itself") {
  GradientSync sync(test_devices(2));
  auto step0 = sync.step(test_device());
  auto step1 = sync.step(test_device(1));
  auto first = sync.all_reduce(test_device(), zeros(0, {2}) + 1.0);
  CHECK_THROWS_WITH_AS(first.resolve(), doctest::Contains(as_tested("wait for cpu:1")), SyncError);
  auto second = sync.all_reduce(test_device(1), zeros(1, {2}) + 2.0);
  CHECK(first.resolve().to_vector<float>() == std::vector<float>{3, 3});
  CHECK(second.resolve().to_vector<float>() == std::vector<float>{3, 3});
  step0.synchronize_async();
  step1.synchronize_async();
  join_all(step0, step1);
}

TEST_CASE("collectives, failure: devices may be driven by new threads at any time") {
  GradientSync sync(test_devices(3));
  const auto replicas = sync.replicate(TwoBranches{});
  for (int i = 0; i < 50; ++i)
    run_devices(3, [&](std::size_t d) {
      std::this_thread::sleep_for(milliseconds((static_cast<std::size_t>(i) + d) % 3));
      sync.barrier(device(d));
      auto step = sync.step(device(d));
      step.synchronize();
    });
}

TEST_CASE("collectives, failure: numbers start anew in the group that forms after a failure") {
  GradientSync sync(test_devices(2));
  const auto replicas = sync.replicate(TwoBranches{});
  // Dropped by the main thread: the race detector does not see the reference counts of exceptions.
  std::optional<PendingTensor> pending[2];
  run_devices(2, [&](std::size_t d) {
    sync.barrier(device(d));
    pending[d] = sync.all_reduce(device(d), zeros(d, {static_cast<std::int64_t>(d) + 1}));
    CHECK_THROWS_AS(pending[d]->resolve(), SyncError);
    CHECK_THROWS_AS(sync.barrier(device(d)), SyncError);
    sync.rejoin(device(d), 0);
    CHECK(sync.all_reduce(device(d), zeros(d, {1}) + 1.0).resolve().item<float>() == 2.0F);
    CHECK_THROWS_AS(pending[d]->resolve(), SyncError);
  });
}
