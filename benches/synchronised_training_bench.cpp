// SPDX-License-Identifier: Apache-2.0
// What synchronising two devices adds to a training step.
#include <tutti/autodiff/backward.h>
#include <tutti/backend/cpu_threads.h>
#include <tutti/backend/registry.h>
#include <tutti/benches/models.h>
#include <tutti/benches/plain_sum.h>
#include <tutti/benches/samples.h>
#include <tutti/benches/thread_pair.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/distributed/sharded/sharded_optimizer.h>
#include <tutti/distributed/sync_server.h>
#include <tutti/nn/loss.h>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace tutti;
using namespace tutti::bench;

namespace {

Sequential initial_model(const Workload& workload) {
  Generator random(1);
  return workload.make_model(random);
}

/// A replica for each of two devices.
class Replicas {
 public:
  /// Without synchronisation.
  explicit Replicas(const Workload& workload) {
    for (std::uint16_t d = 0; d < 2; ++d) models_.push_back(clone(initial_model(workload), cpu(d)));
    prepare(workload);
  }
  Replicas(const Workload& workload, const SyncOptions& options) {
    sync_ = std::make_unique<GradientSync>(std::vector<Device>{cpu(0), cpu(1)}, options);
    models_ = sync_->replicate(initial_model(workload));
    prepare(workload);
    for (std::uint16_t d = 0; d < 2; ++d)
      if (options.sharding != Sharding::none)
        sharded_.push_back(std::make_unique<ShardedOptimizer>(*sync_, cpu(d), workload.make_optimizer));
      else
        sync_->attach(cpu(d), *optimizers_[d]);
  }

  void step(std::size_t device) {
    optimizers_[device]->zero_grad();
    if (sync_ == nullptr) {
      backward(loss(device));
    } else {
      auto scope = sync_->step(cpu(static_cast<std::uint16_t>(device)));
      scope.backward(loss(device));
    }
    if (!sharded_.empty())
      sharded_[device]->step();
    else if (sync_ == nullptr || sync_->server().options().overlap != Overlap::in_backward)
      optimizers_[device]->step();
  }
  void set_reductions_enabled(bool enabled) { sync_->set_reductions_enabled(enabled); }

  /// The peer: nothing while backward runs, then both threads average their halves of all gradients. Not `reducing`:
  /// they only meet.
  void step_with_plain_sum(std::size_t device, SpinBarrier& barrier, bool reducing) {
    optimizers_[device]->zero_grad();
    backward(loss(device));
    synchronize(cpu(static_cast<std::uint16_t>(device)));
    barrier.arrive_and_wait();
    for (std::size_t i = 0; reducing && i < parameters_[0].size(); ++i) {
      const Array& first = parameters_[0][i].gradient_slot().gradient;
      const Array& second = parameters_[1][i].gradient_slot().gradient;
      average_half(first.data<float>(), second.data<float>(), static_cast<std::size_t>(first.size()), device);
    }
    barrier.arrive_and_wait();
    optimizers_[device]->step();
  }

 private:
  void prepare(const Workload& workload) {
    for (std::uint16_t d = 0; d < 2; ++d) {
      Generator random(3, d);
      batches_.push_back(workload.make_batch(random, cpu(d)));
      parameters_.push_back(models_[d].parameters());
      optimizers_.push_back(workload.make_optimizer(parameters_[d]));
    }
  }
  Tensor loss(std::size_t device) const {
    return cross_entropy(models_[device].forward(batches_[device].first), batches_[device].second);
  }

  std::unique_ptr<GradientSync> sync_;  // outlives what takes part in it
  std::vector<Sequential> models_;
  std::vector<std::vector<Tensor>> parameters_;
  std::vector<std::unique_ptr<Optimizer>> optimizers_;
  std::vector<std::unique_ptr<ShardedOptimizer>> sharded_;  // in place of optimizers_, if there are any
  std::vector<std::pair<Tensor, Tensor>> batches_;
};

/// Runs blocks of steps on two threads.
class Blocks {
 public:
  explicit Blocks(int steps) : steps_(steps) {}

  /// Milliseconds per step until the slower thread has done them all. One step in front is not timed: it brings these
  /// replicas back into the caches.
  template <class Step> double milliseconds(Step step) {
    std::array<double, 2> seconds{};
    threads_.run([&](std::size_t device) {
      step(device);
      barrier_.arrive_and_wait();
      const auto start = Clock::now();
      for (int i = 0; i < steps_; ++i) step(device);
      synchronize(cpu(static_cast<std::uint16_t>(device)));
      seconds[device] = seconds_since(start);
      barrier_.arrive_and_wait();
    });
    return 1e3 * std::max(seconds[0], seconds[1]) / steps_;
  }
  SpinBarrier& barrier() noexcept { return barrier_; }

 private:
  int steps_;
  ThreadPair threads_;
  SpinBarrier barrier_;
};

// In each iteration a block of steps of every kind: without synchronisation, with the plain sum, with GradientSync in
// each of its ways, and the two with their reductions switched off: what they take less is what reductions expose; the
// rest is waiting for each other, and messages. All are compared within an iteration.
void two_devices(benchmark::State& state, const Workload& workload) {
  for (std::uint16_t d = 0; d < 2; ++d) set_cpu_threads(cpu(d), 1);
  Replicas alone(workload);
  Replicas plain(workload);
  Replicas plain_unreduced(workload);
  Replicas synchronised(workload, {});
  Replicas unreduced(workload, {});
  Replicas double_buffered(workload, {.overlap = Overlap::double_buffered});
  Replicas in_backward(workload, {.overlap = Overlap::in_backward});
  Replicas sharded(workload, {.sharding = Sharding::optimizer_state});
  unreduced.set_reductions_enabled(false);
  Blocks blocks(static_cast<int>(state.range(0)));
  const auto time = [&](Replicas& replicas) {
    return blocks.milliseconds([&](std::size_t device) { replicas.step(device); });
  };
  const auto time_plain = [&](Replicas& replicas, bool reducing) {
    return blocks.milliseconds(
        [&](std::size_t device) { replicas.step_with_plain_sum(device, blocks.barrier(), reducing); });
  };
  enum Way : std::size_t { kPlain, kPlainUnreduced, kSync, kUnreduced, kDoubleBuffered, kInBackward, kSharded, kWays };
  const char* const names[kWays] = {"plain",           "plain_unreduced", "sync",   "unreduced",
                                    "double_buffered", "in_backward",     "sharded"};
  std::array<PairedSamples, kWays> beside_alone;
  PairedSamples sync_plain;
  PairedSamples sync_reductions;
  PairedSamples plain_reductions;
  for (auto _ : state) {
    const double base = time(alone);
    const double ms[kWays] = {time_plain(plain, true),
                              time_plain(plain_unreduced, false),
                              time(synchronised),
                              time(unreduced),
                              time(double_buffered),
                              time(in_backward),
                              time(sharded)};
    for (std::size_t way = 0; way < kWays; ++way) beside_alone[way].add(ms[way], base);
    sync_plain.add(ms[kSync], ms[kPlain]);
    sync_reductions.add(ms[kSync], ms[kUnreduced]);
    plain_reductions.add(ms[kPlain], ms[kPlainUnreduced]);
    state.SetIterationTime(ms[kSync] * 1e-3);
  }
  state.counters["alone_ms"] = beside_alone[kSync].peer();
  for (std::size_t way = 0; way < kWays; ++way) {
    const std::string name = names[way];
    state.counters[name + "_ms"] = beside_alone[way].ours();
    state.counters[name + "/alone"] = beside_alone[way].ratio();
    state.counters[name + "_added_ms"] = beside_alone[way].difference();
  }
  state.counters["sync/plain"] = sync_plain.ratio();
  state.counters["sync_exposed_ms"] = sync_reductions.difference();
  state.counters["plain_exposed_ms"] = plain_reductions.difference();
}

// The number of samples is fixed: what else the machine does must not decide it.
void blocks_of(benchmark::internal::Benchmark* bench, int steps, int blocks) {
  bench->ArgName("steps")->Arg(steps)->Iterations(blocks)->UseManualTime()->Unit(benchmark::kMillisecond);
}

BENCHMARK_CAPTURE(two_devices, mlp_784_512_512_10, kSmallMlp)->Apply([](auto* bench) { blocks_of(bench, 20, 30); });
BENCHMARK_CAPTURE(two_devices, mlp_784_4x1024_10, kLargeMlp)->Apply([](auto* bench) { blocks_of(bench, 3, 12); });
BENCHMARK_CAPTURE(two_devices, digits_cnn, kDigitsCnn)->Apply([](auto* bench) { blocks_of(bench, 20, 30); });

}  // namespace
