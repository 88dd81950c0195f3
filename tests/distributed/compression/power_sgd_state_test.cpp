// SPDX-License-Identifier: Apache-2.0
// What PowerSGD keeps between steps, across restarts and failures; what it refuses.
#include <tutti/autodiff/custom_function.h>
#include <tutti/backend/error.h>
#include <tutti/nn/embedding.h>
#include <tutti/nn/linear.h>
#include <tutti/tests/distributed/compression/compressing_group.h>

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <map>
#include <stdexcept>
#include <thread>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

TEST_CASE("power_sgd: state continues bitwise in another group") {
  const PowerSgdOptions options{.rank = 2, .start_after = 2, .minimum_rate = 1};
  CompressingGroup whole(options);
  GradientCompression::State state;
  const auto weights = [](int, std::size_t d) { return Part{.weight = 1.0 + static_cast<double>(d)}; };
  run_devices(kGroupDevices, [&](std::size_t d) {
    for (int i = 0; i < 8; ++i) {
      if (i == 4 && d == 1) state = whole.power->state();  // on a device's thread, while the others go on
      whole.step(d, i, weights(i, d));
    }
  });
  CompressingGroup second({.rank = 2, .start_after = 2, .minimum_rate = 1, .seed = 9});
  second.power->load_state(state);
  run_devices(kGroupDevices, [&](std::size_t d) {
    for (int i = 4; i < 8; ++i) second.step(d, i, weights(i, d));
  });
  for (std::size_t d = 0; d < kGroupDevices; ++d) {
    CHECK(floats_of(second.replicas[d].wide.grad()) == floats_of(whole.replicas[d].wide.grad()));
    CHECK(second.kept("kernel", d) == whole.kept("kernel", d));
  }
}

TEST_CASE("power_sgd: with double buffering, state is there after flush") {
  CompressingGroup group({.rank = 1, .minimum_rate = 1}, {.overlap = Overlap::double_buffered});
  CompressingGroup immediate({.rank = 1, .minimum_rate = 1});
  std::vector<Floats> late(kGroupDevices);
  immediate.run(4, everything);
  group.run(4, everything);
  run_devices(kGroupDevices, [&](std::size_t d) {
    CHECK(group.sync.flush(device(d)));
    late[d] = floats_of(group.replicas[d].wide.grad());
  });
  for (std::size_t d = 0; d < kGroupDevices; ++d) {
    CHECK(late[d] == floats_of(immediate.replicas[d].wide.grad()));
    CHECK(group.kept("wide", d) == immediate.kept("wide", d));
  }
}

namespace {

// Holds device 1 in its backward until all devices have begun theirs, then fails.
Tensor failing_late(const Tensor& x, std::size_t d, std::atomic<std::size_t>& begun) {
  return custom_function(
      "failing_late", {x}, [](std::span<const Array> in) { return in[0].copy(); },
      [d, &begun](std::span<const Array>, const Array&, const Array& gradient) -> std::vector<Array> {
        ++begun;
        if (d != 1) return {gradient};
        while (begun < kGroupDevices) std::this_thread::yield();
        throw std::runtime_error("burnt");
      });
}

std::map<std::string, Floats> floats_by_name(const GradientCompression::State& state) {
  std::map<std::string, Floats> result;
  for (const auto& [name, array] : state)
    if (array.dtype() == DType::f32) result[name] = array.to_vector<float>();
  return result;
}

}  // namespace

TEST_CASE("power_sgd: what was reduced in a step that failed begins anew, the rest goes on") {
  const PowerSgdOptions options{.rank = 1, .minimum_rate = 1};
  CompressingGroup group(options, {.bucket_bytes = 0});
  auto want = floats_by_name(group.power->state());  // of a beginning
  group.run(3, everything);
  for (const auto& [name, values] : floats_by_name(group.power->state()))
    if (name.find(":kernel:") != std::string::npos) want[name] = values;
  std::atomic<std::size_t> begun{0};
  const auto errors = errors_of_devices(kGroupDevices, [&](std::size_t d) {
    Matrices& model = group.replicas[d];
    model.zero_grad();
    auto step = group.sync.step(device(d));
    {
      auto local = step.no_sync();  // submitted when its device registers: reduced when all have
      backward(with_gradient(model.wide, wide_gradient(3, d)));
    }
    const Tensor loss =
        with_gradient(model.bias, bias_gradient(3, d)) + with_gradient(model.kernel, kernel_gradient(3, d));
    step.backward(failing_late(loss, d, begun));
  });
  for (const std::string& error : errors) CHECK(error.find("burnt") != std::string::npos);
  CHECK_THROWS_WITH_AS((void)group.power->state(), doctest::Contains("rejoin"), SyncError);
  run_devices(kGroupDevices, [&](std::size_t d) { group.sync.rejoin(device(d), 3); });
  CHECK(floats_by_name(group.power->state()) == want);
  group.run(2, everything);
  for (std::size_t d = 1; d < kGroupDevices; ++d)
    CHECK(floats_of(group.replicas[d].wide.grad()) == floats_of(group.replicas[0].wide.grad()));
}

TEST_CASE("power_sgd: what is loaded after a failure stays when the group forms again") {
  CompressingGroup group({.rank = 1, .minimum_rate = 1}, {.bucket_bytes = 0});
  group.run(3, everything);
  const GradientCompression::State state = group.power->state();
  std::atomic<std::size_t> begun{0};
  const auto errors = errors_of_devices(kGroupDevices, [&](std::size_t d) {
    group.replicas[d].zero_grad();
    auto step = group.sync.step(device(d));
    {
      auto local = step.no_sync();
      backward(with_gradient(group.replicas[d].wide, wide_gradient(3, d)));
    }
    step.backward(failing_late(with_gradient(group.replicas[d].bias, bias_gradient(3, d)), d, begun));
  });
  for (const std::string& error : errors) CHECK(error.find("burnt") != std::string::npos);
  group.power->load_state(state);
  run_devices(kGroupDevices, [&](std::size_t d) { group.sync.rejoin(device(d), 3); });
  CHECK(floats_by_name(group.power->state()) == floats_by_name(state));
}

TEST_CASE("power_sgd: keeps nothing of a table whose gradients are sparse") {
  Generator random(1);
  const Embedding words(1'000, 8, random, {.sparse = true});
  const auto power = std::make_shared<PowerSgd>(PowerSgdOptions{.rank = 1});
  GradientSync sync(test_devices(2), {.compression = power});
  (void)sync.replicate(words);
  CHECK(power->state().size() == 1);  // the count of steps
}

TEST_CASE("power_sgd: what it cannot do is refused") {
  CHECK_THROWS_AS(PowerSgd({.rank = 0}), SyncError);
  CHECK_THROWS_AS(PowerSgd({.start_after = -1}), SyncError);
  CHECK_THROWS_AS(PowerSgd({.minimum_rate = std::nan("")}), SyncError);
  const auto power = std::make_shared<PowerSgd>();
  CHECK_THROWS_WITH_AS(GradientSync(test_devices(2), {.absent = Absent::subset, .compression = power}),
                       doctest::Contains("Absent::zero"), SyncError);
  CHECK_THROWS_WITH_AS((void)power->state(), doctest::Contains("no group"), SyncError);
  Linear f64 = [] {
    Generator random(1);
    return Linear(3, 4, random, {.dtype = DType::f64});
  }();
  GradientSync sync(test_devices(2), {.compression = power});
  CHECK_THROWS_WITH_AS((void)sync.replicate(f64), doctest::Contains("\"weight\" is f64"), SyncError);
  GradientSync good(test_devices(2), {.compression = power});
  (void)good.replicate(Matrices{});
  GradientSync second(test_devices(2), {.compression = power});
  CHECK_THROWS_WITH_AS((void)second.replicate(Matrices{}), doctest::Contains("group"), SyncError);
}

TEST_CASE("power_sgd: a state that does not fit is refused and changes nothing") {
  CompressingGroup group({.rank = 1, .minimum_rate = 1});
  group.run(2, everything);
  const GradientCompression::State good = group.power->state();
  const Floats kept = group.kept("wide", 1);
  const auto refused = [&](GradientCompression::State state, const char* text) {
    for (auto& [name, array] : state)
      if (array.dtype() == DType::f32) array = Array::zeros(array.shape(), DType::f32, cpu());
    CHECK_THROWS_WITH_AS(group.power->load_state(state), doctest::Contains(text), SyncError);
    CHECK(group.kept("wide", 1) == kept);
  };
  auto missing = good;
  missing.pop_back();
  refused(missing, "\"power_sgd:kernel:kept:2\"");
  auto unknown = good;
  unknown.emplace_back("power_sgd:other:factor", Array::zeros({1}, DType::f32, cpu()));
  refused(unknown, "\"power_sgd:other:factor\"");
  auto shaped = good;
  shaped[1].second = Array::zeros({2, 2}, DType::f32, cpu());
  refused(shaped, "[2, 2]");
  auto typed = good;
  typed[0].second = Array::zeros({1}, DType::f32, cpu());
  refused(typed, "i64");
  group.power->load_state(good);
}

TEST_SUITE_END();
