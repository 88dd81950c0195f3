// SPDX-License-Identifier: Apache-2.0
// Learners whose batch norms are synchronised equal one device, also where a device has no examples in a step.
#include <tutti/train/learner.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/loss.h>
#include <tutti/nn/normalization.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/test_devices.h>
#include <tutti/tests/train/list_stream.h>
#include <tutti/train/data/batches.h>

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

using namespace tutti;

namespace {

struct Normed : Module {
  Linear hidden;
  BatchNorm norm;
  Linear output;
  explicit Normed(Generator& random) : hidden(3, 4, random), norm(4), output(4, 2, random) {}
  Tensor forward(const Tensor& x) const { return output.forward(norm.forward(tanh(hidden.forward(x)))); }
  void visit(MemberVisitor& v) override {
    v.module("hidden", hidden);
    v.module("norm", norm);
    v.module("output", output);
  }
};

using NormedLearner = DataParallelLearner<Normed, Batch>;
using Streams = std::function<std::unique_ptr<DataStream<Batch>>(std::size_t)>;

Normed network() {
  Generator random(7);
  Normed model(random);
  model.detach_members_to(test_device());
  return model;
}

Losses losses(Normed& model, const Batch& b) { return {{"loss", mse_loss(model.forward(b.inputs), b.targets)}}; }

std::unique_ptr<Optimizer> sgd(Normed& model) { return std::make_unique<Sgd>(model.parameters(), 0.1); }

std::vector<float> members(Module& model) {
  std::vector<float> values;
  for (const auto& [name, tensor] : model.named_members())
    for (const float value : tensor.to_vector<float>()) values.push_back(value);
  return values;
}

LearnerOptions synchronised(std::size_t devices, EagerOptions step = {}) {
  LearnerOptions options{.devices = test_devices(devices), .step = std::move(step), .synchronize_batch_norms = true};
  options.sync.fail_after = std::chrono::seconds(20);
  return options;
}

void check_near(const std::vector<float>& found, const std::vector<float>& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(found[i] == doctest::Approx(expected[i]).epsilon(2e-5).scale(1));
  }
}

void check_equal_replicas(NormedLearner& learner) {
  for (std::size_t d = 1; d < learner.devices(); ++d) CHECK(members(learner.replica(d)) == members(learner.model()));
}

std::vector<float> trained_on_one(DataStream<Batch>& data, std::int64_t epochs, EagerOptions options = {}) {
  Normed model = network();
  const auto optimizer = sgd(model);
  options.device = test_device();
  EagerTrainer<Batch> trainer(
      model, *optimizer, data, [&](const Batch& b) { return losses(model, b); }, options);
  trainer.train({.epochs = epochs});
  return members(model);
}

Examples examples(std::int64_t count) {
  const Batch all = random_batch(count, 5, cpu());
  return {all.inputs.array(), all.targets.array()};
}

/// Batches of these sizes, by device and step.
std::vector<std::vector<Batch>> batches_of(const std::vector<std::vector<std::int64_t>>& sizes) {
  std::vector<std::vector<Batch>> all(sizes.size());
  for (std::size_t d = 0; d < sizes.size(); ++d)
    for (std::size_t i = 0; i < sizes[d].size(); ++i)
      all[d].push_back(random_batch(sizes[d][i], 100 * d + i, test_device(d)));
  return all;
}

Streams lists_of(const std::vector<std::vector<Batch>>& batches) {
  return [batches](std::size_t d) { return std::make_unique<ListStream>(batches[d]); };
}

}  // namespace

TEST_SUITE_BEGIN("cpu");  // groups of devices: each kind has an engine of its own

TEST_CASE("synchronised norms: a BatchStream whose last step leaves devices without examples") {
  for (const std::int64_t count : {25, 26, 24}) {  // 12 to a step: 1, 2 or none are left
    CAPTURE(count);
    const auto stream = [&](std::vector<Device> devices, std::int64_t batch) {
      return BatchStream(examples(count), {.batch = batch, .devices = std::move(devices), .seed = 3});
    };
    const BatchStream three = stream(test_devices(3), 4);
    NormedLearner learner(network(),
                          {.optimizer = sgd, .data = [&](std::size_t d) { return three.stream(d); }, .losses = losses},
                          synchronised(3));
    learner.train({.epochs = 2});
    check_equal_replicas(learner);
    if (count == 25) continue;  // one device has one example, which alone has no variance
    const auto one = stream({test_device()}, 12).stream();
    check_near(members(learner.model()), trained_on_one(*one, 2));
  }
}

TEST_CASE("synchronised norms: streams of different lengths, some without any batch") {
  for (const auto& sizes : {std::vector<std::vector<std::int64_t>>{{4, 4, 4}, {4}, {}},
                            std::vector<std::vector<std::int64_t>>{{}, {3, 5}, {2, 0, 4}}}) {
    const auto batches = batches_of(sizes);
    NormedLearner learner(network(), {.optimizer = sgd, .data = lists_of(batches), .losses = losses}, synchronised(3));
    learner.train({.epochs = 2});
    check_equal_replicas(learner);
    std::vector<Batch> steps(3);
    for (std::size_t i = 0; i < 3; ++i) {
      std::vector<Tensor> inputs;
      std::vector<Tensor> targets;
      for (const auto& own : batches)
        if (i < own.size() && own[i].size > 0) {
          inputs.push_back(own[i].inputs.to(test_device()));
          targets.push_back(own[i].targets.to(test_device()));
          steps[i].size += own[i].size;
        }
      steps[i].inputs = concatenate(inputs);
      steps[i].targets = concatenate(targets);
    }
    ListStream all(steps);
    check_near(members(learner.model()), trained_on_one(all, 2));
  }
}

TEST_CASE("synchronised norms: accumulation, by batches and by whole updates, with uneven numbers of batches") {
  const auto batches = batches_of({{4, 4, 4}, {3, 5}});
  const auto trained = [&](EagerOptions step) {
    NormedLearner learner(network(), {.optimizer = sgd, .data = lists_of(batches), .losses = losses},
                          synchronised(2, std::move(step)));
    learner.train({.epochs = 2});
    check_equal_replicas(learner);
    return members(learner.model());
  };
  const auto by_batches = trained({.accumulation = 2});
  const auto by_updates = trained({.accumulation = 2, .whole_updates = true});
  check_near(by_updates, by_batches);
  std::vector<Batch> steps;
  for (std::size_t i = 0; i < 3; ++i) {
    std::vector<Batch> parts;
    for (const auto& own : batches)
      if (i < own.size())
        parts.push_back({own[i].inputs.to(test_device()), own[i].targets.to(test_device()), own[i].size});
    steps.push_back(concatenated(parts));
  }
  ListStream all(steps);
  check_near(by_batches, trained_on_one(all, 2, {.accumulation = 2}));
}

TEST_CASE("synchronised norms: an item without examples weighs nothing, also where items have no weight of their own") {
  struct Pair {
    Tensor inputs;
    Tensor targets;
    Pair without_examples(Device device) const {
      const Batch empty = Batch{inputs, targets, inputs.shape()[0]}.without_examples(device);
      return {empty.inputs, empty.targets};
    }
  };
  class Pairs : public DataStream<Pair> {
   public:
    explicit Pairs(std::vector<Batch> batches) : batches_(std::move(batches)) {}
    std::optional<Pair> next() override {
      const std::optional<Batch> batch = batches_.next();
      if (!batch) return {};
      return Pair{batch->inputs, batch->targets};
    }
    void start_epoch(std::int64_t epoch) override { batches_.start_epoch(epoch); }
    std::string position() const override { return batches_.position(); }
    void seek(const std::string& position) override { batches_.seek(position); }

   private:
    ListStream batches_;
  };
  const auto batches = batches_of({{4, 4, 4}, {4}});
  NormedLearner by_examples(network(), {.optimizer = sgd, .data = lists_of(batches), .losses = losses},
                            synchronised(2));
  by_examples.train({.epochs = 2});
  DataParallelLearner<Normed, Pair> alike(network(),
                                          {.optimizer = sgd,
                                           .data = [&](std::size_t d) { return std::make_unique<Pairs>(batches[d]); },
                                           .losses = [](Normed& model, const Pair& b) -> Losses {
                                             return {{"loss", mse_loss(model.forward(b.inputs), b.targets)}};
                                           }},
                                          synchronised(2));
  alike.train({.epochs = 2});
  check_near(members(alike.model()), members(by_examples.model()));
  CHECK(alike.main().storage().samples() == 8);
}

TEST_CASE("synchronised norms: an item type that has no items without examples is told which") {
  struct Plain {
    Tensor inputs;
    Tensor targets;
    static double weight() { return 4; }
  };
  class Once : public DataStream<Plain> {
   public:
    explicit Once(bool has_one, Device device) : has_one_(has_one), device_(device) {}
    std::optional<Plain> next() override {
      if (!std::exchange(has_one_, false)) return {};
      const Batch batch = random_batch(4, 1, device_);
      return Plain{batch.inputs, batch.targets};
    }
    void start_epoch(std::int64_t) override {}
    std::string position() const override { return ""; }
    void seek(const std::string&) override {}

   private:
    bool has_one_;
    Device device_;
  };
  DataParallelLearner<Normed, Plain> learner(
      network(),
      {.optimizer = sgd,
       .data = [](std::size_t d) { return std::make_unique<Once>(d == 0, test_device(d)); },
       .losses = [](Normed& model, const Plain& b) -> Losses {
         return {{"loss", mse_loss(model.forward(b.inputs), b.targets)}};
       }},
      synchronised(2));
  CHECK_THROWS_WITH_AS(learner.train({.epochs = 1}), doctest::Contains("cpu:1 has no data in a step"), Error);
}

TEST_SUITE_END();
