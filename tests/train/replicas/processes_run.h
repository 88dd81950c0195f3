// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/operations.h>
#include <tutti/distributed/gradient_compression.h>
#include <tutti/nn/dropout.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/loss.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/processes/process_threads.h>
#include <tutti/train/data/batches.h>
#include <tutti/train/learner.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tutti::testing {

/// A network with dropout, whose masks have to be those of the device's number in the world.
struct DroppingRegressor : Module {
  explicit DroppingRegressor(Generator random) : hidden(3, 8, random), output(8, 1, random), dropout(0.25, random) {}
  void visit(MemberVisitor& v) override {
    v.module("hidden", hidden);
    v.module("output", output);
    v.module("dropout", dropout);
  }
  Tensor forward(const Tensor& x) const { return output.forward(dropout.forward(tanh(hidden.forward(x)))); }

  Linear hidden, output;
  Dropout dropout;
};

inline Examples regression_examples(std::int64_t count, std::uint64_t seed) {
  Generator random(seed);
  return {random.normal({count, 3}, DType::f32, cpu()), random.normal({count, 1}, DType::f32, cpu())};
}

/// A training of four devices, split among processes that are threads: 37 examples in steps of 12, so that the last one
/// of an epoch is uneven, and an evaluation over all devices.
class ProcessesRun {
 public:
  using Learner = DataParallelLearner<DroppingRegressor, Batch>;
  static constexpr std::size_t kDevices = 4;

  /// What a device, by its number, has at the end.
  struct End {
    std::vector<float> weights;
    std::int64_t iteration = 0;
    std::string stop_reason;
    std::map<std::string, double> values;  ///< the last of each of the storage's
    bool operator==(const End&) const = default;
  };

  explicit ProcessesRun(std::vector<std::uint32_t> split) : split_(std::move(split)) {}

  LearnerOptions options{.step = {.metrics_every = 2}, .evaluation = LearnerOptions::Evaluation::all};
  std::function<void(std::size_t rank, LearnerOptions&)> set_own_options = [](std::size_t, LearnerOptions&) {};
  std::function<SgdOptions(std::size_t rank)> optimizer = [](std::size_t) { return SgdOptions{.momentum = 0.9}; };
  SyncOptions sync_options{.bucket_bytes = 64};
  /// Makes a compression for each process; none: gradients travel as they are.
  std::function<std::shared_ptr<GradientCompression>()> compression;
  /// Data of a device's own, by its number, in place of its share.
  std::function<std::unique_ptr<DataStream<Batch>>(std::size_t number, Device)> own_data;
  std::function<std::unique_ptr<DataStream<Batch>>(std::size_t number, Device)> own_evaluation_data;
  std::vector<std::string> errors;  ///< of the processes, by rank
  std::vector<End> ends;            ///< by number

  /// Every process calls `work` with its learner.
  void run(const std::function<void(std::size_t rank, Learner&)>& work) {
    ends.assign(kDevices, {});
    const auto process = [&](std::size_t rank, GradientSync& sync) {
      const WorldShare world = sync.world();
      const BatchStream data(regression_examples(37, 1),
                             {.batch = 3, .devices = sync.devices(), .world = world, .seed = 5});
      const BatchStream held_out(regression_examples(13, 2),
                                 {.batch = 2, .devices = sync.devices(), .world = world, .shuffle = false});
      LearnerOptions own_options = options;
      set_own_options(rank, own_options);
      const bool all = options.evaluation == LearnerOptions::Evaluation::all;
      const BatchStream alone(regression_examples(13, 2),
                              {.batch = 5, .devices = {sync.devices().front()}, .shuffle = false});
      Learner learner(
          sync, DroppingRegressor(Generator(3)),
          {.optimizer =
               [&](DroppingRegressor& model) {
                 return std::make_unique<Sgd>(model.parameters(), 0.05, optimizer(rank));
               },
           .data =
               [&](std::size_t d) { return own_data ? own_data(world.first + d, sync.devices()[d]) : data.stream(d); },
           .losses = [](DroppingRegressor& model, const Batch& batch) -> Losses {
             return {{"loss", mse_loss(model.forward(batch.inputs), batch.targets)}};
           },
           .evaluation_data =
               [&](std::size_t d) {
                 if (own_evaluation_data) return own_evaluation_data(world.first + d, sync.devices()[d]);
                 return all ? held_out.stream(d) : alone.stream();
               }},
          own_options);
      work(rank, learner);
      for (std::size_t d = 0; d < learner.devices(); ++d) ends[world.first + d] = end_of(learner, d);
    };
    if (split_.size() == 1) {
      std::vector<Device> devices;
      for (std::size_t d = 0; d < kDevices; ++d) devices.push_back(cpu(static_cast<std::uint16_t>(d)));
      GradientSync sync(devices, options_of_process());
      errors = errors_of_devices(1, [&](std::size_t) { process(0, sync); });
    } else {
      ProcessThreads group(split_);
      errors = group.run_each([&](std::size_t) { return options_of_process(); }, process);
    }
  }

 private:
  SyncOptions options_of_process() const {
    SyncOptions own = sync_options;
    if (compression) own.compression = compression();
    return own;
  }
  static End end_of(Learner& learner, std::size_t d) {
    Trainer& trainer = learner.trainer(d);
    End end;
    end.iteration = trainer.iteration();
    end.stop_reason = trainer.stop_reason();
    for (const Tensor& parameter : learner.replica(d).parameters())
      for (const float value : parameter.to_vector<float>()) end.weights.push_back(value);
    for (const char* name : {"total_loss", "evaluation/loss"})
      if (const auto latest = trainer.storage().latest(name)) end.values[name] = latest->value;
    return end;
  }

  std::vector<std::uint32_t> split_;
};

inline const std::vector<std::vector<std::uint32_t>> kProcessSplits{{2, 2}, {1, 1, 1, 1}, {1, 3}};

}  // namespace tutti::testing
