// SPDX-License-Identifier: Apache-2.0
// How long a checkpoint stops training: `save` in the background, against copying the same arrays once more into memory
// that is there already, which is the least that it can take.
#include <tutti/backend/registry.h>
#include <tutti/benches/samples.h>
#include <tutti/nn/linear.h>
#include <tutti/optim/adamw.h>
#include <tutti/train/checkpoints/checkpoint_folder.h>

#include <benchmark/benchmark.h>

#include <filesystem>

using namespace tutti;
using namespace tutti::bench;

namespace {

/// 32 MiB of parameters and twice as much of state, which a first step makes.
struct LargeRun {
  Linear model;
  AdamW optimizer{model.parameters(), 1e-3};
  CheckpointParts parts;

  LargeRun()
      : model([] {
          Generator random(1);
          return Linear(4096, 2048, random);
        }()) {
    for (const Tensor& parameter : model.parameters()) {
      GradientSlot& slot = parameter.gradient_slot();
      slot.gradient = Array::full(parameter.shape(), 0.5, DType::f32, parameter.device());
      slot.state = GradientState::accumulated;
    }
    optimizer.step();
    parts.add("model", model);
    parts.add("optimizer", optimizer);
  }
};

void copy_arrays(const PartStates& from, PartStates& to) {
  for (std::size_t part = 0; part < to.size(); ++part)
    for (std::size_t i = 0; i < to[part].second.arrays.size(); ++i)
      to[part].second.arrays[i].second.copy_from(from[part].second.arrays[i].second);
  synchronize(cpu());
}

std::size_t bytes_of(const PartStates& parts) {
  std::size_t bytes = 0;
  for (const auto& [name, state] : parts)
    for (const auto& [array_name, array] : state.arrays) bytes += array.bytes();
  return bytes;
}

void checkpoint_save(benchmark::State& state) {
  LargeRun run;
  const PartStates arrays = run.parts.save();
  PartStates room = run.parts.save();
  const auto folder = std::filesystem::temp_directory_path() / "tutti-checkpoint-bench";
  std::vector<double> save_seconds;
  std::vector<double> copy_seconds;
  std::vector<double> write_seconds;
  {
    CheckpointFolder checkpoints(folder.string(),
                                 {.max_to_keep = 1, .save_concurrency = static_cast<std::size_t>(state.range(0))});
    for (auto _ : state) {
      const auto start = Clock::now();
      checkpoints.save(run.parts, {});
      synchronize(cpu());
      save_seconds.push_back(seconds_since(start));
      checkpoints.wait();
      write_seconds.push_back(seconds_since(start));
      copy_arrays(arrays,
                  room);  // `save`, too, comes after work: who has slept gets processors that others share first
      const auto copying = Clock::now();
      copy_arrays(arrays, room);
      copy_seconds.push_back(seconds_since(copying));
    }
  }
  std::filesystem::remove_all(folder);
  state.counters["save_ms"] = 1e3 * median(save_seconds);
  state.counters["copy_ms"] = 1e3 * median(copy_seconds);
  state.counters["save/copy"] = median(save_seconds) / median(copy_seconds);
  state.counters["written_ms"] = 1e3 * median(write_seconds);
  state.counters["MiB"] = static_cast<double>(bytes_of(arrays)) / (1 << 20);
}

BENCHMARK(checkpoint_save)
    ->ArgName("writers")
    ->Arg(1)
    ->Arg(4)
    ->Unit(benchmark::kMillisecond)
    ->Iterations(7)
    ->UseRealTime();

}  // namespace
