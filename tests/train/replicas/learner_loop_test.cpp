// SPDX-License-Identifier: Apache-2.0
// What happens around a learner's steps: the order of events, stops in an evaluation, what is counted and reported.
#include <tutti/train/learner.h>

#include <tutti/optim/sgd.h>
#include <tutti/tests/test_devices.h>
#include <tutti/tests/train/linear_training.h>
#include <tutti/train/hooks/callback.h>
#include <tutti/train/hooks/run_statistics_hook.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

using namespace tutti;

namespace {

using Learner = LinearLearner;
using Evaluation = LearnerOptions::Evaluation;

/// Device d's epoch has a batch of each of sizes[d].
Learner::Parts parts(const std::vector<Device>& devices, const std::vector<std::vector<std::int64_t>>& sizes) {
  return {.optimizer = [](Linear& model) { return std::make_unique<Sgd>(model.parameters(), 0.1); },
          .data =
              [=](std::size_t d) {
                std::vector<Batch> own;
                for (std::size_t i = 0; i < sizes[d].size(); ++i)
                  own.push_back(random_batch(sizes[d][i], 100 * d + i, devices[d]));
                return std::make_unique<ListStream>(own);
              },
          .losses = linear_losses};
}

std::vector<float> weights(Linear& model) { return model.parameters()[0].to_vector<float>(); }

/// Two devices with four batches each and forty of evaluation; `heard` is called before each of device d's, and
/// evaluated counts those that came to their end.
struct EvaluatingRun {
  EvaluatingRun(Evaluation where, std::function<void(EvaluatingRun&, std::size_t, int)> heard)
      : heard_(std::move(heard)), learner(linear_network(), made(), {.devices = devices, .evaluation = where}) {
    learner.main().register_hook(std::make_shared<CallbackHook>(
        Callbacks{.after_evaluation = [this](Trainer& t, const Metrics&) { evaluated.push_back(t.iteration()); }}));
  }
  Learner::Parts made() {
    auto all = parts(devices, {{4, 4, 4, 4}, {4, 4, 4, 4}});
    all.evaluation_data = [this](std::size_t d) {
      return std::make_unique<ListStream>(std::vector<Batch>(40, random_batch(2, 900 + d, devices[d])));
    };
    all.evaluation_losses = [this](Linear& model, const Batch& b) {
      const std::size_t d = b.inputs.device() == devices[0] ? 0 : 1;
      if (heard_) heard_(*this, d, ++steps[d]);
      return linear_losses(model, b);
    };
    return all;
  }
  void train() { learner.train_and_evaluate({.epochs = 2}, {.every_steps = 2}); }

  const std::vector<Device> devices = test_devices(2);
  std::array<std::atomic<int>, 2> steps{};  // of evaluations, by device
  std::vector<std::int64_t> evaluated;
  std::function<void(EvaluatingRun&, std::size_t, int)> heard_;
  Learner learner;
};

}  // namespace

TEST_SUITE_BEGIN("cpu");  // groups of devices: each kind has an engine of its own

TEST_CASE("DataParallelLearner: a stop ends an evaluation on all devices, and it is made when training goes on") {
  EvaluatingRun whole(Evaluation::all, {});
  whole.train();
  CHECK(whole.evaluated == std::vector<std::int64_t>{2, 4, 6, 8});
  for (const auto& [where, from] : {std::pair{Evaluation::main, 0U}, {Evaluation::all, 0U}, {Evaluation::all, 1U}}) {
    CAPTURE(from);
    // In its second evaluation. Device 1 has only begun, where device 0 asks for it, and may be done where it does.
    EvaluatingRun run(where, [from = from](EvaluatingRun& r, std::size_t d, int step) {
      if (d == from && step == 45) r.learner.stop("enough");
    });
    run.train();
    CHECK(run.evaluated == std::vector<std::int64_t>{2});
    CHECK(run.steps[from] == 45);
    for (std::size_t d = 0; d < 2; ++d) {
      CHECK(run.learner.trainer(d).iteration() == 4);
      CHECK(run.learner.trainer(d).stop_reason() == "enough");
      CHECK(run.learner.trainer(d).completed());
    }
    CHECK(run.learner.main().storage().find("evaluation/loss")->history.size() == 1);

    // As it is, and from a checkpoint that was made now.
    CheckpointParts saved;
    run.learner.add_parts(saved);
    const PartStates states = saved.save();
    run.train();
    EvaluatingRun resumed(where, {});
    CheckpointParts loaded;
    resumed.learner.add_parts(loaded);
    loaded.load(states);
    resumed.train();
    CHECK(run.evaluated == std::vector<std::int64_t>{2, 4, 6, 8});
    CHECK(resumed.evaluated == std::vector<std::int64_t>{4, 6, 8});
    CHECK(weights(run.learner.model()) == weights(whole.learner.model()));
    CHECK(weights(resumed.learner.model()) == weights(whole.learner.model()));
  }
}

TEST_CASE(
    "DataParallelLearner: a stop in the middle of an update ends training after it, before a planned evaluation") {
  const auto devices = test_devices(2);
  auto made = parts(devices, {{4, 4, 4, 4}, {4, 4, 4, 4}});
  made.evaluation_data = [&](std::size_t d) {
    return std::make_unique<ListStream>(std::vector<Batch>(5, random_batch(2, 900 + d, devices[d])));
  };
  Learner learner(linear_network(), std::move(made), {.devices = devices, .step = {.accumulation = 2}});
  int evaluated = 0;
  learner.main().register_hook(std::make_shared<CallbackHook>(
      Callbacks{.after_step = [&](Trainer& trainer, const StepReport&) { trainer.stop("enough"); },
                .after_evaluation = [&](Trainer&, const Metrics&) { ++evaluated; }}));
  learner.train_and_evaluate({.epochs = 5}, {.every_steps = 1});
  CHECK(evaluated == 0);
  CHECK(learner.main().iteration() == 2);
  CHECK(learner.trainer(1).iteration() == 2);
}

TEST_CASE("DataParallelLearner: who waits long for the main device's evaluation warns, naming it") {
  const auto devices = test_devices(2);
  std::mutex mutex;
  std::vector<std::string> warnings;
  const std::string expected = "[training] " + to_string(devices[1]) +
                               " waits for the others' part of an evaluation and has waited 100 ms to hear "
                               "from " +
                               to_string(devices[0]);
  const auto warned = [&] {
    const std::lock_guard lock(mutex);
    return std::ranges::count(warnings, expected);
  };
  auto made = parts(devices, {{4, 4}, {4, 4}});
  made.evaluation_data = [&](std::size_t d) {
    return std::make_unique<ListStream>(std::vector{random_batch(2, 900 + d, devices[d])});
  };
  made.evaluation_losses = [&](Linear& model, const Batch& b) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (warned() == 0 && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return linear_losses(model, b);
  };
  Learner learner(linear_network(), std::move(made),
                  {.devices = devices, .sync = {.warn_after = std::chrono::milliseconds(100), .warn = [&](auto& text) {
                                                  const std::lock_guard lock(mutex);
                                                  warnings.push_back(text);
                                                }}});
  learner.train_and_evaluate({.epochs = 1}, {.every_epochs = 1});
  CHECK(warned() == 1);
}

TEST_CASE("DataParallelLearner: a warning that throws, or asks the group to wait, harms nobody") {
  const auto devices = test_devices(2);
  Learner* heard = nullptr;
  std::atomic<int> warnings{0};
  std::atomic<int> refused{0};
  auto made = parts(devices, {{4, 4}, {4, 4}});
  made.losses = [&](Linear& model, const Batch& b) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (b.inputs.device() == devices[0] && warnings == 0 && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return linear_losses(model, b);
  };
  made.evaluation_data = [&](std::size_t d) {
    return std::make_unique<ListStream>(std::vector{random_batch(2, 900 + d, devices[d])});
  };
  made.evaluation_losses = [&](Linear& model, const Batch& b) {
    const int before = warnings;
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (warnings == before && std::chrono::steady_clock::now() < until)  // device 1 waits in the agreement
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return linear_losses(model, b);
  };
  Learner learner(linear_network(), std::move(made),
                  {.devices = devices, .sync = {.warn_after = std::chrono::milliseconds(50), .warn = [&](auto& text) {
                                                  try {
                                                    heard->sync().barrier(devices[1]);
                                                  } catch (const SyncError&) {
                                                    ++refused;
                                                  }
                                                  ++warnings;
                                                  throw std::runtime_error(text);
                                                }}});
  heard = &learner;
  CHECK_NOTHROW(learner.train_and_evaluate({.epochs = 1}, {.every_epochs = 1}));
  CHECK(warnings >= 2);
  CHECK(refused == warnings);
}

TEST_CASE("DataParallelLearner: events in order from the main device, an epoch's end after all devices' last steps") {
  const auto devices = test_devices(3);
  Learner learner(linear_network(), parts(devices, {{2, 2}, {2, 2, 2, 2}, {}}), {.devices = devices});
  std::array<std::atomic<std::int64_t>, 3> steps{};
  for (std::size_t d = 0; d < 3; ++d)
    learner.trainer(d).register_hook(
        std::make_shared<CallbackHook>(Callbacks{.after_step = [&steps, d](Trainer&, const StepReport&) {
          if (d > 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the others come late
          ++steps[d];
        }}));
  std::vector<std::string> events;
  std::vector<std::thread::id> threads;
  const auto note = [&](std::string event) {
    events.push_back(std::move(event));
    threads.push_back(std::this_thread::get_id());
  };
  learner.main().register_hook(std::make_shared<CallbackHook>(
      Callbacks{.before_train = [&](Trainer&) { note("train"); },
                .after_step = [&](Trainer&, const StepReport& r) { note(std::to_string(r.global_step)); },
                .after_epoch =
                    [&](Trainer& trainer) {
                      note("epoch");
                      for (std::size_t d = 0; d < 3; ++d) CHECK(steps[d] == trainer.iteration());
                    },
                .end = [&](Trainer&) { note("end"); }}));
  learner.train({.epochs = 2});
  CHECK(events == std::vector<std::string>{"train", "1", "2", "3", "4", "epoch", "5", "6", "7", "8", "epoch", "end"});
  CHECK(std::ranges::count(threads, threads.front()) == static_cast<std::ptrdiff_t>(threads.size()));
}

TEST_CASE("DataParallelLearner: samples are the examples of all devices, in any kind of step") {
  const auto devices = test_devices(2);
  const std::vector<std::vector<std::int64_t>> sizes{{3, 5, 4}, {2, 0, 6, 1, 7}};  // 28 an epoch
  for (const Overlap overlap : {Overlap::immediate, Overlap::double_buffered, Overlap::in_backward})
    for (const std::int64_t accumulation : {1, 2}) {
      if (overlap == Overlap::in_backward && accumulation > 1) continue;
      CAPTURE(accumulation);
      const auto learner_of = [&] {
        return std::make_unique<Learner>(
            linear_network(), parts(devices, sizes),
            LearnerOptions{.devices = devices, .sync = {.overlap = overlap}, .step = {.accumulation = accumulation}});
      };
      const auto learner = learner_of();
      learner->train({.epochs = 1});
      for (std::size_t d = 0; d < 2; ++d) CHECK(learner->trainer(d).storage().samples() == 28);
      CheckpointParts saved;
      learner->add_parts(saved);
      const PartStates states = saved.save();
      learner->train({.epochs = 2});
      CHECK(learner->main().storage().samples() == 2 * 28);
      const auto resumed = learner_of();
      CheckpointParts loaded;
      resumed->add_parts(loaded);
      loaded.load(states);
      resumed->train({.epochs = 3});
      CHECK(resumed->main().storage().samples() == 3 * 28);
    }
}

TEST_CASE("RunStatisticsHook: throughput, memory and synchronisation reach the storage of a learner's run") {
  const auto devices = test_devices(2);
  Learner learner(linear_network(), parts(devices, {{4, 4, 4}, {4, 4, 2}}), {.devices = devices});
  learner.main().register_hook(std::make_shared<RunStatisticsHook>(
      RunStatisticsOptions{.every_steps = 4, .devices = devices, .sync = &learner.sync()}));
  const auto start = std::chrono::steady_clock::now();
  learner.main().register_hook(std::make_shared<CallbackHook>(Callbacks{
      .after_step = [](Trainer&, const StepReport&) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }}));
  learner.train({.epochs = 3});
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EventStorage& storage = learner.main().storage();
  const auto* const throughput = storage.find("throughput");
  REQUIRE(throughput != nullptr);
  REQUIRE(throughput->history.size() == 2);         // of steps 1 to 4 and 5 to 8, of nine
  for (const auto& scalar : throughput->history) {  // of 30 examples each
    CHECK(scalar.value > 30 / seconds);
    CHECK(scalar.value < 30 / (3 * 0.005));  // at least three pauses are between the steps
  }
  CHECK(storage.latest("memory/" + to_string(devices[1]) + "/peak")->value > 0);
  CHECK(storage.latest("sync/step_time")->value > 0.0);
  CHECK(storage.latest("sync/lateness/" + to_string(devices[0])));
}

TEST_SUITE_END();
