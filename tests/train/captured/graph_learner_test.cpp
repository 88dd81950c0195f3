// SPDX-License-Identifier: Apache-2.0
// Learners whose steps are captured, beside those whose are not; checkpoints that pass from one to the other.
#include <tutti/nn/activation.h>
#include <tutti/nn/dropout.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/loss.h>
#include <tutti/nn/sequential.h>
#include <tutti/optim/adamw.h>
#include <tutti/tests/exchange/temporary_folder.h>
#include <tutti/tests/test_devices.h>
#include <tutti/tests/train/list_stream.h>
#include <tutti/train/data/batches.h>
#include <tutti/train/data/joined.h>
#include <tutti/train/graph_trainer.h>
#include <tutti/train/hooks/checkpointer.h>
#include <tutti/train/hooks/learning_rate.h>
#include <tutti/train/learner.h>

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

using namespace tutti;
using namespace tutti::testing;

namespace {

Sequential network() {
  Generator random(3);
  return Sequential(Linear(3, 8, random), ReLU(), Dropout(0.25, random), Linear(8, 2, random));
}

/// 61 examples, so that the last step of an epoch is uneven.
Examples examples() {
  Generator random(11);
  return {random.normal({61, 3}, DType::f32, cpu()), random.normal({61, 2}, DType::f32, cpu())};
}

struct Setting {
  EagerOptions step = {};
  SyncOptions sync = {};
  std::int64_t joined = 1;
};

template <template <class> class TrainerOf> struct Run {
  using Learner = DataParallelLearner<Sequential, Batch, TrainerOf>;

  explicit Run(const Setting& setting = {})
      : batches(examples(), {.batch = 4, .devices = test_devices(2), .seed = 5}),
        learner(network(),
                {.optimizer = [](Sequential& m) { return std::make_unique<AdamW>(m.parameters(), 0.01); },
                 .data = [this, setting](std::size_t d) { return joined(batches.stream(d), setting.joined); },
                 .losses = [](Sequential& m, const Batch& b) -> Losses {
                   return {{"loss", mse_loss(m.forward(b.inputs), b.targets)}};
                 },
                 .evaluation_data =
                     [](std::size_t) {
                       return BatchStream(examples(), {.batch = 4, .devices = test_devices(1), .seed = 5}).stream();
                     }},
                {.devices = test_devices(2), .sync = setting.sync, .step = setting.step}) {
    for (std::size_t d = 0; d < 2; ++d) {
      learner.trainer(d).set_log([](std::string_view) {});
      learner.trainer(d).register_hook(
          std::make_shared<LearningRateSchedule>(learner.optimizer(d), Schedule::cosine(0.01, 60)));
    }
    learner.add_parts(parts);
  }

  void train(std::int64_t epochs) { learner.train_and_evaluate({.epochs = epochs}, {.every_steps = 6}); }
  std::vector<float> weights(std::size_t d) {
    std::vector<float> all;
    for (const Tensor& parameter : learner.replica(d).parameters())
      for (const float value : parameter.template to_vector<float>()) all.push_back(value);
    return all;
  }

  BatchStream batches;
  Learner learner;
  CheckpointParts parts;
};

void check_same(const Setting& setting, std::int64_t least_replays) {
  Run<EagerTrainer> eager(setting);
  Run<GraphTrainer> graph(setting);
  eager.train(4);
  graph.train(4);
  for (std::size_t d = 0; d < 2; ++d) {
    CHECK(graph.weights(d) == eager.weights(0));
    CHECK(graph.learner.trainer(d).captures().replayed >= least_replays);
  }
  CHECK(graph.learner.main().updates() == eager.learner.main().updates());
  const auto& losses = graph.learner.main().storage().find("total_loss")->history;
  const auto& expected = eager.learner.main().storage().find("total_loss")->history;
  REQUIRE(losses.size() == expected.size());
  for (std::size_t i = 0; i < losses.size(); ++i) CHECK(losses[i].value == expected[i].value);
}

/// Of five batches on one device and two on the other.
template <template <class> class TrainerOf> std::vector<float> weights_of_uneven_devices(bool whole_updates) {
  const auto devices = test_devices(2);
  DataParallelLearner<Sequential, Batch, TrainerOf> learner(
      network(),
      {.optimizer = [](Sequential& m) { return std::make_unique<AdamW>(m.parameters(), 0.01); },
       .data =
           [&](std::size_t d) {
             std::vector<Batch> own;
             for (std::uint64_t i = 0; i < (d == 0 ? 5 : 2); ++i)
               own.push_back(random_batch(4, 10 * d + i, devices[d]));
             return std::make_unique<ListStream>(std::move(own));
           },
       .losses = [](Sequential& m, const Batch& b) -> Losses {
         return {{"loss", mse_loss(m.forward(b.inputs), b.targets)}};
       }},
      {.devices = devices, .step = {.accumulation = 2, .whole_updates = whole_updates}});
  learner.train({.epochs = 8});
  CHECK(learner.main().updates() == 24);
  std::vector<std::vector<float>> weights;
  for (std::size_t d = 0; d < 2; ++d) weights.push_back(learner.replica(d).parameters()[0].template to_vector<float>());
  CHECK(weights[0] == weights[1]);
  return weights[0];
}

class Interrupting : public Hook {
 public:
  explicit Interrupting(std::int64_t at) : at_(at) {}
  void after_step(const StepReport& report) override {
    if (report.training && report.global_step == at_) throw std::runtime_error("interrupted");
  }

 private:
  std::int64_t at_;
};

/// Interrupted at some step, and gone on with by the other trainer.
template <template <class> class First, template <class> class Second>
void check_resumed(const std::vector<float>& expected, const Setting& setting, std::int64_t at) {
  const TemporaryFolder folder;
  {
    Run<First> interrupted(setting);
    CheckpointFolder checkpoints(folder.file("run"), {.every_steps = 2});
    interrupted.learner.save_into(checkpoints, interrupted.parts);
    interrupted.learner.trainer(1).register_hook(std::make_shared<Interrupting>(at));
    CHECK_THROWS_WITH(interrupted.train(4), "interrupted");
  }
  Run<Second> resumed(setting);
  CheckpointFolder checkpoints(folder.file("run"));
  REQUIRE(checkpoints.load_newest(resumed.parts));
  resumed.train(4);
  for (std::size_t d = 0; d < 2; ++d) CHECK(resumed.weights(d) == expected);
}

}  // namespace

TEST_SUITE_BEGIN("cpu");  // groups of devices: each kind has an engine of its own

TEST_CASE("GraphTrainer: a learner's devices train as eager ones do, with uneven batches") { check_same({}, 22); }
TEST_CASE("GraphTrainer: a learner with accumulation and clipping") {
  check_same({.step = {.accumulation = 3, .max_norm = 0.2}}, 12);
  check_same({.step = {.accumulation = 3, .max_norm = 0.2, .whole_updates = true}}, 12);
}
TEST_CASE("GraphTrainer: a learner with concatenated batches") { check_same({.joined = 2}, 8); }
TEST_CASE("GraphTrainer: a learner with gradients of the step before, and with updates during backward") {
  check_same({.sync = {.overlap = Overlap::double_buffered}}, 18);
  check_same({.sync = {.overlap = Overlap::in_backward}}, 18);
}

TEST_CASE("GraphTrainer: a learner whose devices have different numbers of batches") {
  const auto expected = weights_of_uneven_devices<EagerTrainer>(false);
  CHECK(weights_of_uneven_devices<EagerTrainer>(true) == expected);
  CHECK(weights_of_uneven_devices<GraphTrainer>(false) == expected);
  CHECK(weights_of_uneven_devices<GraphTrainer>(true) == expected);
}

TEST_CASE("GraphTrainer: checkpoints go on bitwise, in another trainer too") {
  for (const bool whole : {false, true}) {
    CAPTURE(whole);
    const Setting setting{.step = {.accumulation = 2, .whole_updates = whole}};
    Run<EagerTrainer> run(setting);
    run.train(4);
    const auto expected = run.weights(0);
    for (const std::int64_t at : {5, 9, 14}) {
      CAPTURE(at);
      check_resumed<EagerTrainer, GraphTrainer>(expected, setting, at);
      check_resumed<GraphTrainer, EagerTrainer>(expected, setting, at);
      check_resumed<GraphTrainer, GraphTrainer>(expected, setting, at);
    }
  }
}

TEST_SUITE_END();
