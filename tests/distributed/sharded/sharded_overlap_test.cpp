// SPDX-License-Identifier: Apache-2.0
// That shares travel while later ones are being updated, and what scattered gradients occupy.
#include <tutti/backend/process/environment.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/engines/local/local_communicator.h>
#include <tutti/tests/distributed/sharded/sharded_training.h>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

/// Remembers the collectives that it was given: between two reductions, the gathers.
struct RecordingEngine : LocalCommunicator {
  std::shared_ptr<CollectiveTask> collective(CollectiveRequest request) override {
    auto task = LocalCommunicator::collective(std::move(request));
    const std::lock_guard lock(mutex);
    tasks.push_back(task);
    return task;
  }
  std::size_t finished() {
    const std::lock_guard lock(mutex);
    return static_cast<std::size_t>(std::ranges::count_if(tasks, [](const auto& task) { return task->finished(); }));
  }
  std::mutex mutex;  // guards tasks: devices' threads launch
  std::vector<std::shared_ptr<CollectiveTask>> tasks;
};

struct Chain : Module {
  static constexpr int kLayers = 16;
  static constexpr std::int64_t kWidth = 64;
  std::vector<Tensor> layers;
  Chain() {
    for (int i = 0; i < kLayers; ++i) layers.push_back(Branching::filled({kWidth, kWidth}, i));
  }
  void visit(MemberVisitor& v) override {
    for (int i = 0; i < kLayers; ++i) v.parameter("layer" + std::to_string(i), layers[static_cast<std::size_t>(i)]);
  }
  Tensor loss(Device device) const {
    Tensor x(Branching::numbers({2, kWidth}, 77, device));
    for (const Tensor& layer : layers) x = tanh(matmul(x, layer));
    return mean(square(x));
  }
  static constexpr std::size_t kBytes = std::size_t{kLayers} * kWidth * kWidth * sizeof(float);
};

}  // namespace

TEST_CASE("sharded: shares have arrived before the last update begins") {
  auto owned = std::make_unique<RecordingEngine>();
  RecordingEngine& engine = *owned;
  GradientSync sync(test_devices(2), {.sharding = Sharding::optimizer_state, .bucket_bytes = 1}, std::move(owned));
  auto replicas = sync.replicate(Chain{});
  struct Watching : Sgd {
    Watching(std::vector<Tensor> pieces, std::function<void()> watch) : Sgd(std::move(pieces), 0.1), watch_(watch) {}
    void update(std::span<const Update> updates) override {
      for (std::size_t i = 0; i < updates.size(); ++i) watch_();
    }
    std::function<void()> watch_;
  };
  std::atomic<int> updates[2] = {0, 0};
  std::atomic<bool> arrived[2] = {false, false};
  run_devices(2, [&](std::size_t d) {
    ShardedOptimizer optimizer(sync, cpu(static_cast<std::uint16_t>(d)), [&, d](std::vector<Tensor> pieces) {
      return std::make_unique<Watching>(std::move(pieces), [&, d] {
        const int update = ++updates[d];
        const auto give_up_at = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        const auto wait_for = [&](auto condition) {
          while (!condition() && std::chrono::steady_clock::now() < give_up_at) std::this_thread::yield();
          return condition();
        };
        wait_for([&] { return updates[1 - d] >= update; });  // side by side
        if (update < 1 + Chain::kLayers / 2) return;         // one was of no parameter
        // The other device may still be at its last but one gather, which two more precede that this device helped
        // with.
        arrived[d] = wait_for([&] { return engine.finished() >= Chain::kLayers - 4; });
      });
    });
    auto step = sync.step(cpu(static_cast<std::uint16_t>(d)));
    step.backward(replicas[d].loss(cpu(static_cast<std::uint16_t>(d))));
    optimizer.step();
  });
  CHECK(arrived[0]);
  CHECK(arrived[1]);
  CHECK(engine.finished() == Chain::kLayers);
}

TEST_CASE("sharded: scattered gradients occupy a share, and what is being reduced") {
  constexpr std::size_t kDevices = 4;
  GradientSync sync(test_devices(kDevices), {.sharding = Sharding::gradients, .bucket_bytes = 1});
  auto replicas = sync.replicate(Chain{});
  std::vector<std::unique_ptr<ShardedOptimizer>> optimizers;
  for (const Device device : sync.devices())
    optimizers.push_back(std::make_unique<ShardedOptimizer>(sync, device, sgd()));
  const std::size_t share = Chain::kBytes / kDevices;
  const std::size_t layer = Chain::kBytes / Chain::kLayers;
  MemoryPool& pool = memory_pool(cpu(kDevices - 1));
  for (int i = 0; i < 3; ++i) {
    std::vector<Step> steps;
    for (const Device device : sync.devices()) steps.push_back(sync.step(device));
    std::size_t before = 0;
    for (std::size_t d = 0; d < kDevices; ++d) {
      synchronize(sync.devices()[d]);
      const Tensor loss = replicas[d].loss(sync.devices()[d]);
      synchronize(sync.devices()[d]);
      before = pool.statistics().in_use;
      pool.reset_peak();
      steps[d].backward_async(loss);
    }
    // The last device's: every layer's gradient is gone before the next but one is made. Asynchronous streams queue
    // them all first.
    if (!environment_switch("TUTTI_CPU_ASYNC")) CHECK(pool.statistics().peak_in_use - before <= share + 3 * layer);
    for (Step& step : steps) step.join();
    synchronize(sync.devices()[kDevices - 1]);
    CHECK(pool.statistics().in_use <= before + share + layer / 4);
    for (auto& optimizer : optimizers) optimizer->step_async();
    for (auto& optimizer : optimizers) {
      optimizer->join();
      optimizer->zero_grad();
    }
  }
}

TEST_SUITE_END();
