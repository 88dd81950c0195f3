// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/learner.h>

#include <tutti/autodiff/custom_function.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/exchange/temporary_folder.h>
#include <tutti/tests/test_devices.h>
#include <tutti/tests/train/linear_training.h>
#include <tutti/train/hooks/callback.h>
#include <tutti/train/hooks/early_stopping.h>

#include <doctest/doctest.h>

#include <chrono>
#include <mutex>
#include <set>
#include <thread>

using namespace tutti;
using tutti::testing::TemporaryFolder;

namespace {

using Learner = LinearLearner;

std::unique_ptr<Optimizer> sgd(Linear& model) { return std::make_unique<Sgd>(model.parameters(), 0.1); }

/// Device d's epoch has lengths[d] batches of four.
Learner::Parts parts(const std::vector<Device>& devices, const std::vector<int>& lengths) {
  const auto stream = [=](std::size_t d) {
    std::vector<Batch> own;
    for (int i = 0; i < lengths[d]; ++i)
      own.push_back(random_batch(4, 100 * d + static_cast<std::uint64_t>(i), devices[d]));
    return std::make_unique<ListStream>(own);
  };
  return {.optimizer = sgd, .data = stream, .losses = linear_losses, .evaluation_data = stream};
}

std::vector<float> weights(Linear& model) { return model.parameters()[0].to_vector<float>(); }

/// The steps that `lengths` make, taken on one device.
std::vector<float> trained_on_one(const std::vector<int>& lengths, std::int64_t epochs) {
  Linear model = linear_network();
  std::vector<Batch> steps;
  for (int i = 0; i < *std::ranges::max_element(lengths); ++i) {
    std::vector<Tensor> inputs;
    std::vector<Tensor> targets;
    for (std::size_t d = 0; d < lengths.size(); ++d)
      if (i < lengths[d]) {
        const Batch b = random_batch(4, 100 * d + static_cast<std::uint64_t>(i));
        inputs.push_back(b.inputs);
        targets.push_back(b.targets);
      }
    const auto size = static_cast<std::int64_t>(4 * inputs.size());
    steps.push_back({concatenate(inputs), concatenate(targets), size});
  }
  ListStream data(steps);
  const auto optimizer = sgd(model);
  EagerTrainer<Batch> trainer(model, *optimizer, data, [&](const Batch& b) { return linear_losses(model, b); });
  trainer.train({.epochs = epochs});
  return weights(model);
}

class Interrupting : public Hook {
 public:
  explicit Interrupting(std::int64_t at) : at_(at) {}
  void after_step(const StepReport& report) override {
    if (report.global_step == at_) trainer().stop("interrupted");
  }

 private:
  std::int64_t at_;
};

}  // namespace

TEST_SUITE_BEGIN("cpu");  // groups of devices: each kind has an engine of its own

TEST_CASE("DataParallelLearner: devices with different numbers of batches train as one, and none hangs") {
  for (const std::vector<int>& lengths : {std::vector<int>{3, 3, 3}, {3, 1, 2}, {0, 2, 1}, {1, 0, 0}}) {
    CAPTURE(lengths);
    const auto devices = test_devices(3);
    Learner learner(linear_network(), parts(devices, lengths), {.devices = devices});
    learner.train({.epochs = 3});
    const auto expected = trained_on_one(lengths, 3);
    const auto found = weights(learner.model());
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-5));
    for (std::size_t d = 0; d < 3; ++d) {
      CHECK(weights(learner.replica(d)) == found);
      CHECK(learner.trainer(d).iteration() == 3 * *std::ranges::max_element(lengths));
      CHECK(learner.trainer(d).completed());
    }
  }
}

TEST_CASE("DataParallelLearner: batches of no example, some on all devices at once, change no mean and hang nobody") {
  const auto devices = test_devices(2);
  const std::vector<std::int64_t> sizes[] = {{0, 4, 3, 0, 2}, {5, 0, 1, 0, 0}};
  const auto made = [&](std::size_t d, std::size_t step, Device device) {
    return random_batch(sizes[d][step], 100 * d + step, device);
  };
  Learner learner(linear_network(),
                  {.optimizer = sgd,
                   .data =
                       [&](std::size_t d) {
                         std::vector<Batch> own;
                         for (std::size_t i = 0; i < 5; ++i) own.push_back(made(d, i, devices[d]));
                         return std::make_unique<ListStream>(own);
                       },
                   .losses = linear_losses},
                  {.devices = devices});
  learner.train({.epochs = 2});

  Linear model = linear_network();
  std::vector<Batch> steps;
  for (std::size_t i = 0; i < 5; ++i) {
    std::vector<Tensor> inputs;
    std::vector<Tensor> targets;
    for (std::size_t d = 0; d < 2; ++d)
      if (sizes[d][i] > 0) {
        inputs.push_back(made(d, i, test_device()).inputs);
        targets.push_back(made(d, i, test_device()).targets);
      }
    if (!inputs.empty()) steps.push_back({concatenate(inputs), concatenate(targets), sizes[0][i] + sizes[1][i]});
  }
  REQUIRE(steps.size() == 4);
  ListStream data(steps);
  const auto optimizer = sgd(model);
  EagerTrainer<Batch> trainer(model, *optimizer, data, [&](const Batch& b) { return linear_losses(model, b); });
  trainer.train({.epochs = 2});
  const auto expected = weights(model);
  const auto found = weights(learner.model());
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-5));
  CHECK(weights(learner.replica(1)) == found);
  CHECK(learner.main().iteration() == 10);
}

TEST_CASE("DataParallelLearner: an interrupt, from any device, stops all before the same step") {
  for (const std::size_t from : {0U, 2U}) {
    const auto devices = test_devices(3);
    Learner learner(linear_network(), parts(devices, {5, 5, 5}), {.devices = devices});
    learner.trainer(from).register_hook(std::make_shared<Interrupting>(7));
    learner.train({.epochs = 100});
    const std::int64_t steps = learner.main().iteration();
    CHECK(steps >= 7);
    CHECK(steps <= 8);
    for (std::size_t d = 0; d < 3; ++d) {
      CHECK(learner.trainer(d).iteration() == steps);
      CHECK(learner.trainer(d).stop_reason() == "interrupted");
    }
    learner.train({.steps = steps + 3});  // it goes on where it stopped
    CHECK(learner.trainer(1).iteration() == steps + 3);
    CHECK(weights(learner.replica(0)) == weights(learner.replica(2)));
  }
}

TEST_CASE("DataParallelLearner: a stop before training is before every device's first step") {
  const auto devices = test_devices(2);
  Learner learner(linear_network(), parts(devices, {5, 5}), {.devices = devices});
  learner.main().register_hook(std::make_shared<CallbackHook>(Callbacks{.before_train = [](Trainer& trainer) {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));  // the other device would be in its first step
    trainer.stop("nothing to do");
  }}));
  learner.train({.epochs = 2});
  for (std::size_t d = 0; d < 2; ++d) CHECK(learner.trainer(d).iteration() == 0);
}

TEST_CASE("DataParallelLearner: evaluation on the main device or on all, by examples") {
  const auto devices = test_devices(2);
  Linear model = linear_network();
  const auto mean_on = [&](LearnerOptions::Evaluation where, std::vector<int> lengths) {
    Learner learner(model, parts(devices, lengths), {.devices = devices, .evaluation = where});
    return learner.evaluate().at("loss");
  };
  const auto mean_of = [&](const std::vector<int>& lengths) {
    double sum = 0;
    int count = 0;
    for (std::size_t d = 0; d < 2; ++d)
      for (int i = 0; i < lengths[d]; ++i, ++count)
        sum += linear_losses(model, random_batch(4, 100 * d + static_cast<std::uint64_t>(i)))[0].second.item<double>();
    return sum / count;
  };
  CHECK(mean_on(LearnerOptions::Evaluation::main, {3, 2}) == doctest::Approx(mean_of({3, 0})));
  CHECK(mean_on(LearnerOptions::Evaluation::all, {3, 2}) == doctest::Approx(mean_of({3, 2})));
  CHECK(mean_on(LearnerOptions::Evaluation::all, {0, 2}) == doctest::Approx(mean_of({0, 2})));
}

TEST_CASE("DataParallelLearner: early stopping by the main device's evaluations stops all") {
  const auto devices = test_devices(2);
  for (const auto where : {LearnerOptions::Evaluation::main, LearnerOptions::Evaluation::all}) {
    auto made = parts(devices, {4, 4});
    made.evaluation_losses = [](Linear&, const Batch& b) -> Losses {
      return {{"loss", Tensor(Array::full({}, 1, DType::f32, b.inputs.device()))}};
    };
    Learner learner(linear_network(), std::move(made), {.devices = devices, .evaluation = where});
    learner.main().register_hook(std::make_shared<EarlyStopping>(EarlyStoppingOptions{.patience = 2}));
    learner.train_and_evaluate({.epochs = 50}, {.every_steps = 2});
    CHECK(learner.main().iteration() == 6);
    CHECK(learner.trainer(1).iteration() == learner.main().iteration());
    CHECK(learner.trainer(1).stop_reason().find("has not improved") != std::string::npos);
  }
}

TEST_CASE("DataParallelLearner: the first cause of a failure is thrown, and nobody hangs") {
  const auto devices = test_devices(3);
  auto made = parts(devices, {4, 2, 4});
  made.losses = [&](Linear& model, const Batch& b) -> Losses {
    static thread_local int calls = 0;
    if (b.inputs.device() == devices[2] && ++calls == 4) throw std::runtime_error("the third device broke");
    return linear_losses(model, b);
  };
  Learner learner(linear_network(), std::move(made), {.devices = devices});
  std::vector<std::string> echoes[2];
  for (std::size_t d = 0; d < 2; ++d)
    learner.trainer(d).set_log([&, d](std::string_view line) { echoes[d].emplace_back(line); });
  std::vector<std::string> logged;
  learner.trainer(2).set_log([&](std::string_view line) { logged.emplace_back(line); });
  CHECK_THROWS_WITH(learner.train({.epochs = 50}), "the third device broke");
  for (const auto& echo : echoes) CHECK(echo.empty());
  REQUIRE(logged.size() == 1);
  CHECK(logged[0].starts_with("training on " + to_string(devices[2]) + " failed at step 3 of epoch "));
  for (std::size_t d = 0; d < 3; ++d) CHECK_FALSE(learner.trainer(d).completed());
  const auto before = weights(learner.model());
  CHECK_THROWS_WITH(learner.train({.epochs = 50}), doctest::Contains("the third device broke"));  // nor does it go on
  CHECK(weights(learner.model()) == before);
}

TEST_CASE("DataParallelLearner: double buffering uses every gradient, the last ones too") {
  const auto devices = test_devices(2);
  const auto updates = [&](Overlap overlap) {
    SyncOptions sync;
    sync.overlap = overlap;
    sync.buffers = BufferPolicy::synchronised;
    Learner learner(linear_network(), parts(devices, {3, 3}), {.devices = devices, .sync = sync});
    learner.train({.epochs = 2});
    CHECK(weights(learner.replica(0)) == weights(learner.replica(1)));
    return learner.optimizer(0).steps();
  };
  CHECK(updates(Overlap::immediate) == 6);
  CHECK(updates(Overlap::double_buffered) == 6);  // the first had no gradients and is no step, the last was flushed
}

TEST_CASE("DataParallelLearner: micro-batches that nothing synchronises, on devices with different numbers of them") {
  const auto devices = test_devices(2);
  for (const std::vector<int>& lengths : {std::vector<int>{8, 8}, {6, 4}, {3, 7}}) {
    for (int repeat = 0; repeat < 10; ++repeat) {
      Learner learner(linear_network(), parts(devices, lengths),
                      {.devices = devices, .step = {.accumulation = 4, .metrics_every = 0}});
      learner.train({.epochs = 5});
      for (std::size_t d = 0; d < 2; ++d) {
        CHECK(learner.trainer(d).epoch() == 5);
        CHECK(learner.trainer(d).iteration() == 5 * *std::ranges::max_element(lengths));
      }
      CHECK(weights(learner.replica(0)) == weights(learner.replica(1)));
    }
  }
}

TEST_CASE("DataParallelLearner: a stop waits for the update, on all devices") {
  const auto devices = test_devices(2);
  Learner learner(linear_network(), parts(devices, {9, 9}), {.devices = devices, .step = {.accumulation = 3}});
  learner.main().register_hook(std::make_shared<Interrupting>(4));
  learner.train({.epochs = 9});
  CHECK(learner.main().iteration() == 6);
  CHECK(learner.trainer(1).iteration() == 6);
}

TEST_CASE("DataParallelLearner: an error in backward is thrown, not the others' echo of it") {
  const auto devices = test_devices(3);
  auto made = parts(devices, {4, 4, 4});
  made.losses = [&](Linear& model, const Batch& b) -> Losses {
    const Tensor loss = mse_loss(model.forward(b.inputs), b.targets);
    if (b.inputs.device() != devices[2]) return {{"loss", loss}};
    const Tensor failing = custom_function(
        "failing", {loss}, [](std::span<const Array> in) { return in[0].copy(); },
        [](std::span<const Array>, const Array&, const Array&) -> std::vector<Array> {
          throw std::runtime_error("burnt in backward");
        });
    return {{"loss", failing}};
  };
  Learner learner(linear_network(), std::move(made), {.devices = devices});
  for (std::size_t d = 0; d < 3; ++d) learner.trainer(d).set_log([](std::string_view) {});
  CHECK_THROWS_WITH(learner.train({.epochs = 2}), "burnt in backward");
}

TEST_CASE("DataParallelLearner: an error in an evaluation of all devices ends the others' wait") {
  const auto devices = test_devices(2);
  auto made = parts(devices, {2, 2});
  made.evaluation_losses = [&](Linear& model, const Batch& b) -> Losses {
    if (b.inputs.device() == devices[1]) throw std::runtime_error("no evaluation here");
    return linear_losses(model, b);
  };
  Learner learner(linear_network(), std::move(made),
                  {.devices = devices, .evaluation = LearnerOptions::Evaluation::all});
  CHECK_THROWS_WITH((void)learner.evaluate(), "no evaluation here");
}

TEST_CASE("DataParallelLearner: shards of different lengths are resumed each at its own place") {
  const auto devices = test_devices(2);
  for (const std::vector<int>& lengths : {std::vector<int>{1, 3}, {3, 1}}) {
    Learner whole(linear_network(), parts(devices, lengths), {.devices = devices});
    whole.train({.epochs = 3});
    Learner first(linear_network(), parts(devices, lengths), {.devices = devices});
    CheckpointParts saved;
    first.add_parts(saved);
    first.train({.steps = 5});
    const PartStates states = saved.save();
    Learner second(linear_network(), parts(devices, lengths), {.devices = devices});
    CheckpointParts loaded;
    second.add_parts(loaded);
    loaded.load(states);
    second.train({.epochs = 3});
    CHECK(weights(second.model()) == weights(whole.model()));
    Learner other(linear_network(), parts(test_devices(3), {1, 1, 1}), {.devices = test_devices(3)});
    CheckpointParts refused;
    other.add_parts(refused);
    CHECK_THROWS_WITH_AS(refused.load(states), doctest::Contains("resume with 2 devices"), DataError);
  }
}

TEST_CASE("DataParallelLearner: a checkpoint of N devices goes on on M: every example once, every loss in the means") {
  struct Change {
    std::size_t from, to;
    std::int64_t batch_after;  // 3 before
  };
  for (const auto& [from, to, batch_after] : {Change{2, 1, 6}, Change{2, 1, 3}, Change{1, 2, 3}, Change{4, 2, 3}}) {
    CAPTURE(from);
    CAPTURE(to);
    std::mutex mutex;
    std::multiset<std::pair<std::int64_t, std::int64_t>> places;  // epoch, place in its order
    double losses = 0;
    const Batch all = random_batch(41, 5);
    const auto make = [&](std::size_t count, std::int64_t batch) {
      const auto devices = test_devices(count);
      const BatchStream batches({all.inputs.array(), all.targets.array()}, {.batch = batch, .devices = devices});
      return std::make_unique<Learner>(linear_network(),
                                       Learner::Parts{.optimizer = sgd,
                                                      .data = [=](std::size_t d) { return batches.stream(d); },
                                                      .losses =
                                                          [&](Linear& model, const Batch& b) {
                                                            const Losses made = linear_losses(model, b);
                                                            const std::lock_guard lock(mutex);
                                                            losses += made[0].second.item<double>() * b.weight();
                                                            for (std::int64_t i = 0; i < b.size; ++i)
                                                              places.emplace(b.epoch, b.first + i);
                                                            return made;
                                                          }},
                                       LearnerOptions{.devices = devices, .step = {.metrics_every = 1000}});
    };
    const TemporaryFolder folder;
    {
      const auto learner = make(from, 3);
      CheckpointParts parts;
      learner->add_parts(parts);
      CheckpointFolder checkpoints(folder.file("run"), {.every_steps = 3, .at_end = false});
      learner->save_into(checkpoints, parts);
      learner->train({.steps = 3});
    }
    const auto learner = make(to, batch_after);
    CheckpointParts parts;
    learner->add_parts(parts);
    REQUIRE(CheckpointFolder(folder.file("run")).load_newest(parts));
    learner->train({.epochs = 2});
    CHECK(learner->main().epoch() == 2);
    CHECK(places.size() == 2 * 41);
    CHECK(std::set(places.begin(), places.end()).size() == 2 * 41);
    CHECK(learner->main().storage().latest("total_loss")->value == doctest::Approx(losses / (2 * 41)).epsilon(1e-6));
    for (std::size_t d = 1; d < to; ++d) CHECK(weights(learner->replica(d)) == weights(learner->replica(0)));
  }
}

TEST_SUITE_END();
