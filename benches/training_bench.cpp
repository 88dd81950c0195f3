// SPDX-License-Identifier: Apache-2.0
// One training step on one device, and where its time goes: forward, backward, optimizer.
#include <tutti/autodiff/backward.h>
#include <tutti/backend/cpu_threads.h>
#include <tutti/backend/registry.h>
#include <tutti/benches/models.h>
#include <tutti/benches/samples.h>
#include <tutti/nn/loss.h>

#include <benchmark/benchmark.h>

using namespace tutti;
using namespace tutti::bench;

namespace {

/// Seconds of each part of a step, of all steps.
struct StepTimes {
  std::vector<double> forward;
  std::vector<double> backward;
  std::vector<double> optimizer;
};

/// Runs `part` to its end, also on streams that run behind, and notes how long it took.
template <class Part> void timed(Device device, std::vector<double>& seconds, Part part) {
  const auto start = Clock::now();
  part();
  synchronize(device);
  seconds.push_back(seconds_since(start));
}

void train_step(benchmark::State& state, const Workload& workload) {
  const Device device = cpu();
  set_cpu_threads(device, static_cast<int>(state.range(0)));
  Generator random(1);
  Sequential model = workload.make_model(random);
  const auto optimizer = workload.make_optimizer(model.parameters());
  const auto [inputs, targets] = workload.make_batch(random, device);
  StepTimes times;
  for (auto _ : state) {
    Tensor loss;
    timed(device, times.forward, [&] { loss = cross_entropy(model.forward(inputs), targets); });
    timed(device, times.backward, [&] { backward(loss); });
    timed(device, times.optimizer, [&] {
      optimizer->step();
      optimizer->zero_grad();
    });
  }
  set_cpu_threads(device, 1);
  const double step = median(times.forward) + median(times.backward) + median(times.optimizer);
  state.counters["forward_ms"] = 1e3 * median(times.forward);
  state.counters["backward_ms"] = 1e3 * median(times.backward);
  state.counters["optimizer_ms"] = 1e3 * median(times.optimizer);
  state.counters["examples_per_s"] = static_cast<double>(workload.batch) / step;
}

/// The update of all parameters, at once as `step` does it, or one after the other.
void optimizer_step(benchmark::State& state, const Workload& workload) {
  const Device device = cpu();
  set_cpu_threads(device, static_cast<int>(state.range(0)));
  Generator random(1);
  Sequential model = workload.make_model(random);
  const auto optimizer = workload.make_optimizer(model.parameters());
  const auto [inputs, targets] = workload.make_batch(random, device);
  backward(cross_entropy(model.forward(inputs), targets));
  std::vector<double> seconds;
  for (auto _ : state)
    timed(device, seconds, [&] {
      if (state.range(1) == 1) return optimizer->step();
      for (std::size_t i = 0; i < optimizer->parameters().size(); ++i) optimizer->update_parameter(i);
      optimizer->end_step();
    });
  set_cpu_threads(device, 1);
  state.counters["median_us"] = 1e6 * median(seconds);
}

void one_or_two_threads(benchmark::internal::Benchmark* bench) {
  bench->ArgName("threads")->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond)->UseRealTime();
}

void at_once_or_not(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"threads", "at_once"})->ArgsProduct({{1, 2}, {0, 1}})->Unit(benchmark::kMicrosecond)->UseRealTime();
}

BENCHMARK_CAPTURE(train_step, mlp_784_512_512_10, kSmallMlp)->Apply(one_or_two_threads);
BENCHMARK_CAPTURE(train_step, mlp_784_4x1024_10, kLargeMlp)->Apply(one_or_two_threads);
BENCHMARK_CAPTURE(train_step, digits_cnn, kDigitsCnn)->Apply(one_or_two_threads);
BENCHMARK_CAPTURE(optimizer_step, mlp_784_512_512_10, kSmallMlp)->Apply(at_once_or_not);
BENCHMARK_CAPTURE(optimizer_step, mlp_784_4x1024_10, kLargeMlp)->Apply(at_once_or_not);
BENCHMARK_CAPTURE(optimizer_step, digits_cnn, kDigitsCnn)->Apply(at_once_or_not);

}  // namespace
