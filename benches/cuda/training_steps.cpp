// SPDX-License-Identifier: Apache-2.0
// Training steps of the benches' models, queued one behind the other: examples a second. benches/peers/torch_eager.py
// has the same in PyTorch.
#include <tutti/benches/cuda/measurement.h>

#include <tutti/autodiff/backward.h>
#include <tutti/benches/models.h>
#include <tutti/nn/loss.h>

namespace tutti::bench {
namespace {

void bench_steps(const BenchOptions& options, const Workload& workload, BenchResults& results) {
  Generator random(1);
  Sequential model = workload.make_model(random);
  model.detach_members_to(options.device);
  const auto optimizer = workload.make_optimizer(model.parameters());
  const auto [inputs, targets] = workload.make_batch(random, options.device);
  const auto step = [&] {
    optimizer->zero_grad();
    backward(cross_entropy(model.forward(inputs), targets));
    optimizer->step();
  };
  for (int i = 0; i < options.steps / 10; ++i) step();
  std::vector<double> seconds;
  for (int sample = 0; sample < 5; ++sample) {
    synchronize(options.device);
    const auto start = Clock::now();
    for (int i = 0; i < options.steps; ++i) step();
    synchronize(options.device);
    seconds.push_back(seconds_since(start) / options.steps);
  }
  results.add({.table = "training",
               .name = workload.name,
               .seconds = median(seconds),
               .work = static_cast<double>(workload.batch)});
}

}  // namespace

void bench_training(const BenchOptions& options, BenchResults& results) {
  for (const Workload* workload : {&kSmallMlp, &kLargeMlp, &kDigitsCnn}) bench_steps(options, *workload, results);
}

}  // namespace tutti::bench
