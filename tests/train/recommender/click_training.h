// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/operations.h>
#include <tutti/nn/binary_loss.h>
#include <tutti/nn/hash_embedding.h>
#include <tutti/nn/linear.h>
#include <tutti/optim/adamw.h>
#include <tutti/optim/sparse_optimizer.h>
#include <tutti/tests/test_devices.h>
#include <tutti/train/data/batches.h>
#include <tutti/train/data/window_stream.h>
#include <tutti/train/recommender_trainer.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tutti {

/// What recommenders are tested with: two tables, one of which evicts, and a dense layer.
struct Ranker : Module {
  HashEmbedding users{2, {.table = {.seed = 3, .capacity = 2, .index = {.max_rows = 8}, .device = test_device()}}};
  HashEmbedding items{2, {.table = {.seed = 4, .capacity = 2, .device = test_device()}}};
  Linear output;

  explicit Ranker(std::uint64_t seed = 1) : output(make(seed)) {}
  void visit(MemberVisitor& v) override {
    v.module("users", users);
    v.module("items", items);
    v.module("output", output);
  }
  /// [n, 2] i64, a user and an item -> [n, 1] f32.
  Tensor forward(const Tensor& ids) const {
    const auto column = [&](std::int64_t i) { return ids.slice(1, i, i + 1).reshape({ids.length(0)}); };
    return output.forward(users.forward(column(0)) + items.forward(column(1)));
  }
  /// All of it, bit for bit, whatever rows the ids have.
  std::vector<double> contents() {
    std::vector<double> all;
    const auto add = [&](const Array& array) {
      for (const double value : array.cast(DType::f64).to_vector<double>()) all.push_back(value);
    };
    for (const auto& [name, array] : save_tables(*this)) add(array);
    for (const Tensor& parameter : dense_parameters(*this)) add(parameter.array());
    return all;
  }

 private:
  static Linear make(std::uint64_t seed) {
    Generator random(seed);
    return Linear(2, 1, random, {.device = test_device()});
  }
};

/// Clicks of one hour, [n, 2] i64 and [n, 1] f32: ids come and go from hour to hour.
inline Examples clicks_of(std::int64_t hour, std::int64_t count = 10) {
  Generator random(static_cast<std::uint64_t>(100 + hour));
  std::vector<std::int64_t> ids;
  std::vector<float> clicked;
  for (std::int64_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<std::int64_t>(random.below(6)) + 2 * hour);
    ids.push_back(-1 - static_cast<std::int64_t>(random.below(4)));
    clicked.push_back(random.below(2) == 1 ? 1.0F : 0.0F);
  }
  return {Array::from(ids, {count, 2}, cpu()), Array::from(clicked, {count, 1}, cpu())};
}

/// A run in a folder: hours 0, 2 and 3 of four, a few steps in each, on devices that share each batch, those of a group
/// if there is one.
struct ClickRun {
  using Trainer = RecommenderTrainer<Ranker, Batch>;

  struct Plan {
    std::size_t devices = 1;  // of all processes
    GradientSync* group = nullptr;
    std::int64_t batch = 4;  // of all devices
    bool windowed = true;
    std::function<void(const Tensor& logits)> seen = {};                              // by all devices' threads
    std::function<std::unique_ptr<DataStream<Batch>>(std::size_t device)> data = {};  // in place of these hours
    RecommenderOptions options = {};
  };

  ClickRun(TrainingArguments arguments, Plan plan) : trainer(make(std::move(arguments), plan)) {
    for (std::size_t d = 0; d < trainer.learner().devices(); ++d)
      trainer.learner().trainer(d).set_log([](std::string_view) {});
  }
  explicit ClickRun(TrainingArguments arguments) : ClickRun(std::move(arguments), {}) {}

  std::vector<double> contents(std::size_t device = 0) { return trainer.learner().replica(device).contents(); }
  std::int64_t steps() { return trainer.learner().main().iteration(); }

  static std::unique_ptr<DataStream<Batch>> hour(const Plan& plan, std::int64_t number, std::size_t device) {
    const auto per_device = plan.batch / static_cast<std::int64_t>(plan.devices);
    BatchOptions options{.batch = per_device, .devices = test_devices(plan.devices), .seed = 5};
    if (plan.group != nullptr) {
      options.devices = plan.group->devices();
      options.world = plan.group->world();
    }
    return BatchStream(clicks_of(number), options).stream(device);
  }

  Trainer trainer;

 private:
  static Trainer make(TrainingArguments arguments, const Plan& plan) {
    if (plan.group == nullptr) return Trainer(Ranker(), parts_of(plan), std::move(arguments), options_of(plan));
    return Trainer(*plan.group, Ranker(), parts_of(plan), std::move(arguments), options_of(plan));
  }
  static RecommenderOptions options_of(const Plan& plan) {
    RecommenderOptions options = plan.options;
    options.learner.devices = test_devices(plan.devices);
    options.log = nullptr;
    return options;
  }
  static Trainer::Learner::Parts parts_of(const Plan& plan) {
    const auto open = [plan](std::size_t device) -> std::unique_ptr<DataStream<Batch>> {
      if (plan.data) return plan.data(device);
      if (!plan.windowed) return hour(plan, 0, device);
      return std::make_unique<WindowStream<Batch>>(
          4, [plan, device](std::int64_t number) { return number == 1 ? nullptr : hour(plan, number, device); });
    };
    return {.optimizer = [](Ranker& r) { return std::make_unique<AdamW>(dense_parameters(r), 0.01); },
            .sparse_optimizer = [](Ranker& r) { return std::make_unique<SparseAdamW>(sparse_parameters(r), 0.02); },
            .data = open,
            .losses = [plan](Ranker& r, const Batch& b) -> Losses {
              const Tensor logits = r.forward(b.inputs);
              if (plan.seen) plan.seen(logits);
              return {{"loss", binary_cross_entropy_with_logits(logits.cast(DType::f32), b.targets)}};
            },
            .evaluation_data = [plan](std::size_t) { return hour({.batch = plan.batch}, 9, 0); }};
  }
};

/// Two devices' hours, of 10 clicks each on the first, and of 3 in one hour, less than a batch, on the second, whose
/// log ends earlier.
inline std::unique_ptr<DataStream<Batch>> uneven_hours(std::size_t device) {
  return std::make_unique<WindowStream<Batch>>(device == 0 ? 4 : 3, [device](std::int64_t hour) {
    const bool skipped = device == 0 ? hour == 1 : hour != 2;
    if (skipped) return std::unique_ptr<DataStream<Batch>>();
    const Examples clicks = clicks_of(hour + 10 * static_cast<std::int64_t>(device), device == 0 ? 10 : 3);
    return BatchStream(clicks, {.batch = 3, .devices = {test_device(device)}, .seed = 5}).stream();
  });
}

}  // namespace tutti
