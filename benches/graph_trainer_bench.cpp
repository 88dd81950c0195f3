// SPDX-License-Identifier: Apache-2.0
// Steps of a GraphTrainer beside those of an EagerTrainer: in turn, on equal models.
#include <tutti/backend/registry.h>
#include <tutti/benches/models.h>
#include <tutti/benches/same_batch.h>
#include <tutti/benches/samples.h>
#include <tutti/nn/loss.h>
#include <tutti/train/data/batch.h>
#include <tutti/train/graph_trainer.h>

#include <benchmark/benchmark.h>

using namespace tutti;
using namespace tutti::bench;

namespace {

struct StepTime {
  double wall = 0;
  double processor = 0;  ///< of this thread, which does all of the step
};

template <template <class> class TrainerOf> struct Training {
  explicit Training(const Workload& workload)
      : random(1),
        model(workload.make_model(random)),
        optimizer(workload.make_optimizer(model.parameters())),
        data(batch_of(workload)),
        trainer(model, *optimizer, data, [this](const Batch& batch) -> Losses {
          return {{"loss", cross_entropy(model.forward(batch.inputs), batch.targets)}};
        }) {}

  StepTime time_of(std::int64_t steps) {
    const auto start = Clock::now();
    const double before = processor_seconds();
    trainer.train({.steps = trainer.iteration() + steps});
    synchronize(cpu());
    const double processor = processor_seconds() - before;
    return {seconds_since(start) / static_cast<double>(steps), processor / static_cast<double>(steps)};
  }

  Generator random;
  Sequential model;
  std::unique_ptr<Optimizer> optimizer;
  SameBatch data;
  TrainerOf<Batch> trainer;

 private:
  Batch batch_of(const Workload& workload) {
    auto [inputs, targets] = workload.make_batch(random, cpu());
    return {std::move(inputs), std::move(targets), workload.batch};
  }
};

void graph_trainer(benchmark::State& state, const Workload& workload, std::int64_t steps) {
  Training<EagerTrainer> eager(workload);
  Training<GraphTrainer> graph(workload);
  for (int i = 0; i < 4; ++i) {
    eager.time_of(1);
    graph.time_of(1);
  }
  PairedSamples wall;
  PairedSamples processor;
  for (auto _ : state) {
    const StepTime ours = graph.time_of(steps);
    const StepTime peer = eager.time_of(steps);
    wall.add(ours.wall, peer.wall);
    processor.add(ours.processor, peer.processor);
  }
  state.counters["graph_us"] = 1e6 * wall.ours();
  state.counters["eager_us"] = 1e6 * wall.peer();
  state.counters["ratio"] = wall.ratio();
  state.counters["graph_processor_us"] = 1e6 * processor.ours();
  state.counters["eager_processor_us"] = 1e6 * processor.peer();
  state.counters["processor_ratio"] = processor.ratio();
  state.counters["capture_KB"] = static_cast<double>(graph.trainer.captures().memory) / 1024;
}

BENCHMARK_CAPTURE(graph_trainer, mlp_4x8_10, kTinyMlp, 50)->Iterations(60)->UseRealTime();
BENCHMARK_CAPTURE(graph_trainer, mlp_784_512_512_10, kSmallMlp, 2)->Iterations(60)->UseRealTime();
BENCHMARK_CAPTURE(graph_trainer, mlp_784_4x1024_10, kLargeMlp, 1)->Iterations(15)->UseRealTime();
BENCHMARK_CAPTURE(graph_trainer, gpt_4x128, kGpt, 1)->Iterations(15)->UseRealTime();
BENCHMARK_CAPTURE(graph_trainer, cnn_1_32_64, kCnn, 1)->Iterations(30)->UseRealTime();

}  // namespace
