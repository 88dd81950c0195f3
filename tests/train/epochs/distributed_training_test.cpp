// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/distributed_training.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/exchange/temporary_folder.h>
#include <tutti/tests/test_devices.h>
#include <tutti/tests/train/linear_training.h>
#include <tutti/train/device_threads.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <thread>

using namespace tutti;
using tutti::testing::TemporaryFolder;

namespace {

using Learner = LinearLearner;

/// Device d has lengths[d] batches for training and one, of 2 d + 2 examples, for validation.
Learner learner_of(const std::vector<Device>& devices, std::vector<int> lengths, double rate = 0.1) {
  return {linear_network(),
          {.optimizer = [=](Linear& model) { return std::make_unique<Sgd>(model.parameters(), rate); },
           .data =
               [=](std::size_t d) {
                 std::vector<Batch> own;
                 for (int i = 0; i < lengths[d]; ++i)
                   own.push_back(random_batch(4, 100 * d + static_cast<std::uint64_t>(i), devices[d]));
                 return std::make_unique<ListStream>(own);
               },
           .losses = linear_losses,
           .evaluation_data =
               [=](std::size_t d) {
                 std::vector<Batch> own;
                 own.push_back(random_batch(2 * static_cast<std::int64_t>(d) + 2, 900 + d, devices[d]));
                 return std::make_unique<ListStream>(own);
               }},
          {.devices = devices, .evaluation = LearnerOptions::Evaluation::all}};
}

/// Two batches for each device, none for validation, with the default options of a learner.
Learner without_validation(const std::vector<Device>& devices,
                           LearnerOptions::Evaluation evaluation = LearnerOptions::Evaluation::main) {
  return {linear_network(),
          {.optimizer = [](Linear& model) { return std::make_unique<Sgd>(model.parameters(), 0.1); },
           .data =
               [=](std::size_t d) {
                 return std::make_unique<ListStream>(
                     std::vector{random_batch(4, 2 * d, devices[d]), random_batch(4, 2 * d + 1, devices[d])});
               },
           .losses = linear_losses},
          {.devices = devices, .evaluation = evaluation}};
}

std::vector<float> weights(Linear& model) { return model.parameters()[0].to_vector<float>(); }

/// Notes each epoch's model.
struct Models {
  Learner& learner;
  std::vector<std::vector<float>> after_epoch;
  void operator()(const DrivingState&) { after_epoch.push_back(weights(learner.model())); }
};

}  // namespace

TEST_SUITE_BEGIN("cpu");  // groups of devices: each kind has an engine of its own

TEST_CASE("driving: losses are means over the examples of all ranks, uneven ones too") {
  const auto devices = test_devices(2);
  Learner learner = learner_of(devices, {3, 2}, 0.0);  // at rate 0 the model stays
  const auto schedule = EpochSchedule::constant();
  const LoopState state = local_data_parallel_training_loop(learner, *schedule, {.epochs = {.max_epochs = 1}});
  Linear model = linear_network();
  double training = 0;
  for (std::uint64_t i = 0; i < 3; ++i) training += linear_losses(model, random_batch(4, i))[0].second.item<double>();
  for (std::uint64_t i = 0; i < 2; ++i)
    training += linear_losses(model, random_batch(4, 100 + i))[0].second.item<double>();
  const double validation = (2 * linear_losses(model, random_batch(2, 900))[0].second.item<double>() +
                             4 * linear_losses(model, random_batch(4, 901))[0].second.item<double>()) /
                            6;
  CHECK(state.learning_curve.at(0).training_loss == doctest::Approx(training / 5));
  CHECK(state.learning_curve.at(0).validation->loss == doctest::Approx(validation));
}

TEST_CASE("driving: the best model of the eligible epochs ends up in every rank's") {
  const auto devices = test_devices(3);
  Learner learner = learner_of(devices, {2, 2, 2}, 0.4);
  Models models{learner, {}};
  const auto schedule = EpochSchedule::constant();
  const LoopState state = local_data_parallel_training_loop(
      learner, *schedule,
      {.epochs = {.max_epochs = 12, .eligible = [](std::int64_t epoch) { return epoch < 5; }},
       .checkpoint = [&](const DrivingState& s) { models(s); }});
  REQUIRE(state.min_validation_epoch);
  CHECK(*state.min_validation_epoch < 5);
  const auto& best = models.after_epoch.at(static_cast<std::size_t>(*state.min_validation_epoch));
  for (std::size_t d = 0; d < 3; ++d) CHECK(weights(learner.replica(d)) == best);
  CHECK(models.after_epoch.back() != best);
}

TEST_CASE("driving: resumed from a checkpoint it ends where the uninterrupted run ends, the best model included") {
  const auto devices = test_devices(2);
  const DrivingOptions options{
      .epochs = {.max_epochs = 8, .smoothing = 0.5, .eligible = [](std::int64_t) { return true; }}};
  struct Saved {
    DrivingState state;
    NamedArrays model;
    Optimizer::State optimizer;
    std::string trainer;
  };
  std::vector<Saved> saved;
  const auto run = [&](Learner& learner, DrivingState state, bool save) {
    const auto schedule = EpochSchedule::reduce_on_plateau(0.5, 1);
    DrivingOptions saving = options;
    if (save)
      saving.checkpoint = [&](const DrivingState& s) {
        Saved one{s, {}, learner.optimizer(0).state(), learner.main().state()};
        for (const auto& [name, tensor] : learner.model().named_parameters())
          one.model.emplace_back(name, tensor.array().copy());
        saved.push_back(std::move(one));
      };
    return local_data_parallel_training_loop(learner, *schedule, saving, std::move(state));
  };
  Learner whole = learner_of(devices, {2, 2}, 0.5);
  const LoopState expected = run(whole, {}, true);
  for (const std::size_t cut : {std::size_t{0}, std::size_t{3}, std::size_t{6}}) {
    Learner resumed = learner_of(devices, {2, 2}, 0.5);
    const Saved& from = saved.at(cut);
    for (std::size_t d = 0; d < 2; ++d) {
      const NoGrad no_grad;
      const auto parameters = resumed.replica(d).named_parameters();
      for (std::size_t i = 0; i < parameters.size(); ++i)
        parameters[i].second.copy_(Tensor(from.model[i].second.to(devices[d])));
      resumed.optimizer(d).load_state(from.optimizer);
      resumed.trainer(d).load_state(from.trainer);
    }
    DrivingState state;
    state.load_text(from.state.to_text());
    state.best_model = from.state.best_model;
    std::ranges::reverse(state.best_model);  // files have an order of their own
    CHECK(run(resumed, std::move(state), false).to_text() == expected.to_text());
    CHECK(weights(resumed.model()) == weights(whole.model()));
    CHECK(weights(resumed.replica(1)) == weights(whole.model()));
  }
}

TEST_CASE("driving: its part of a checkpoint has the best model; from any folder it ends as the uninterrupted run") {
  const auto devices = test_devices(2);
  const DrivingOptions options{
      .epochs = {.max_epochs = 7, .smoothing = 0.5, .eligible = [](std::int64_t epoch) { return epoch < 3; }}};
  const auto run = [&](Learner& learner, const DrivingOptions& driving, DrivingState state) {
    const auto schedule = EpochSchedule::reduce_on_plateau(0.5, 1);
    return local_data_parallel_training_loop(learner, *schedule, driving, std::move(state));
  };
  const TemporaryFolder folder;
  Learner whole = learner_of(devices, {2, 2}, 0.5);
  DrivingState kept;
  CheckpointParts parts;
  whole.add_parts(parts);
  parts.add("driving", kept);
  CheckpointFolder checkpoints(folder.file("run"), {.max_to_keep = 10});
  DrivingOptions saving = options;
  saving.checkpoint = [&](const DrivingState& state) {
    kept = state;
    checkpoints.save(parts, {.step = whole.main().iteration(), .epoch = state.loop.epoch});
  };
  const LoopState expected = run(whole, saving, {});
  checkpoints.wait();
  REQUIRE(expected.min_validation_epoch);
  const auto paths = checkpoints.paths();
  REQUIRE(paths.size() == 7);
  for (const std::string& path : paths) {
    CAPTURE(path);
    Learner resumed = learner_of(devices, {2, 2}, 0.5);
    DrivingState state;
    CheckpointParts loaded;
    resumed.add_parts(loaded);
    loaded.add("driving", state);
    CHECK(CheckpointFolder(folder.file("run")).load(path, loaded).unused_parts.empty());
    CHECK(run(resumed, options, std::move(state)).to_text() == expected.to_text());
    for (std::size_t d = 0; d < 2; ++d) CHECK(weights(resumed.replica(d)) == weights(whole.model()));
  }
}

TEST_CASE("driving: a checkpoint's part without its best model, or with another model's, is refused") {
  DrivingState state;
  state.loop.min_validation_loss = 1.0;
  state.loop.min_validation_epoch = 2;
  state.best_model = {{"other", Array::zeros({2}, DType::f32, test_device())}};
  PartState part = part_state(state);
  CHECK(part.arrays.size() == 1);
  DrivingState loaded;
  prepare_part(loaded, part)();
  CHECK(loaded.best_model.front().first == "other");
  Learner learner = learner_of(test_devices(2), {2, 2});
  for (std::size_t d = 0; d < 2; ++d) learner.trainer(d).set_log([](std::string_view) {});
  const auto schedule = EpochSchedule::constant();
  CHECK_THROWS_WITH_AS((void)local_data_parallel_training_loop(learner, *schedule, {}, loaded),
                       doctest::Contains("the best model has no \"weight\""), DataError);
  part.arrays.clear();
  CHECK_THROWS_WITH_AS((void)prepare_part(loaded, part), doctest::Contains("of epoch 2, is missing"), DataError);
  part.left_out = {"other"};
  CHECK_THROWS_WITH_AS((void)prepare_part(loaded, part), doctest::Contains("a filter left out"), DataError);
}

namespace {

std::ptrdiff_t threads_of_this_process() {
  const std::filesystem::directory_iterator all("/proc/self/task");
  return std::distance(begin(all), end(all));
}

}  // namespace

TEST_CASE(
    "driving: every rank steps by itself, parameters do not travel, and nothing of the group is left at the end") {
  const auto devices = test_devices(3);
  const auto train = [&] {
    Learner learner = learner_of(devices, {2, 2, 2});
    {  // one that differs keeps its difference: the same update is made everywhere
      const NoGrad no_grad;
      for (const Tensor& parameter : learner.replica(2).parameters()) parameter.copy_(parameter + 1.0);
    }
    const auto schedule = EpochSchedule::constant();
    local_data_parallel_training_loop(learner, *schedule, {.epochs = {.max_epochs = 3}});
    for (std::size_t d = 0; d < 3; ++d) CHECK(learner.optimizer(d).steps() == 6);
    const SyncReport report = learner.sync().report();
    REQUIRE(report.steps.size() == 6);
    for (const SyncReport::Step& step : report.steps) {
      CHECK(step.reductions.size() == 2);  // weight and bias
      CHECK(step.total_weight == 12);
    }
    CHECK(weights(learner.replica(1)) == weights(learner.model()));
    const auto own = weights(learner.replica(2));
    for (std::size_t i = 0; i < own.size(); ++i)
      CHECK(own[i] == doctest::Approx(weights(learner.model())[i] + 1).epsilon(1e-4));
  };
  train();
  const auto before = threads_of_this_process();
  for (int i = 0; i < 4; ++i) train();
  // A thread that was joined may be listed a moment longer.
  for (int wait = 0; wait < 1000 && threads_of_this_process() > before; ++wait)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(threads_of_this_process() <= before);
}

TEST_CASE("driving: an error of any rank ends all, and is the one that is thrown") {
  const auto devices = test_devices(3);
  for (const std::size_t failing : {0U, 2U}) {
    Learner learner = learner_of(devices, {3, 3, 3});
    class Failing : public Hook {
      void after_step(const StepReport& report) override {
        if (report.global_step == 4) throw std::runtime_error("this rank broke");
      }
    };
    for (std::size_t d = 0; d < 3; ++d) learner.trainer(d).set_log([](std::string_view) {});
    learner.trainer(failing).register_hook(std::make_shared<Failing>());
    const auto schedule = EpochSchedule::constant();
    CHECK_THROWS_WITH(local_data_parallel_training_loop(learner, *schedule, {.epochs = {.max_epochs = 5}}),
                      "this rank broke");
  }
  Learner learner = learner_of(devices, {3, 3, 3});
  const auto schedule = EpochSchedule::constant();
  CHECK_THROWS_WITH(local_data_parallel_training_loop(learner, *schedule,
                                                      {.epochs = {.max_epochs = 5},
                                                       .checkpoint =
                                                           [](const DrivingState& s) {
                                                             if (s.loop.epoch == 2)
                                                               throw std::runtime_error("disk full");
                                                           }}),
                    "disk full");
}

TEST_CASE("driving: a trainer with hash tables is refused") {
  Linear model = linear_network();
  Sgd optimizer(model.parameters(), 0.1);
  Sgd sparse(model.parameters(), 0.1);
  ListStream data({random_batch(4, 1)});
  EagerTrainer<Batch> trainer(model, optimizer, data, [&](const Batch& batch) { return linear_losses(model, batch); },
                              {.sparse_optimizer = &sparse});
  LocalControl control(0);
  const auto schedule = EpochSchedule::constant();
  CHECK_THROWS_WITH_AS(
      (void)drive_distributed_training(control.root(), trainer, *schedule, {.epochs = {.max_epochs = 1}}),
      doctest::Contains("hash tables"), Error);
}

TEST_CASE("driving: a learner that evaluates on its main device is told which option to set") {
  const auto devices = test_devices(2);
  Learner learner = without_validation(devices);
  const auto schedule = EpochSchedule::constant();
  CHECK_THROWS_WITH_AS(local_data_parallel_training_loop(learner, *schedule, {.epochs = {.max_epochs = 2}}),
                       doctest::Contains("LearnerOptions::Evaluation::all"), Error);
  CHECK(learner.main().iteration() == 0);
}

TEST_CASE("driving: a follower that evaluates alone ends all, at the first validation") {
  const auto devices = test_devices(2);
  GradientSync sync(devices, {.fail_after = std::chrono::seconds(20)});
  auto replicas = sync.replicate(linear_network());
  std::vector<std::unique_ptr<Sgd>> optimizers;
  for (std::size_t d = 0; d < 2; ++d) {
    optimizers.push_back(std::make_unique<Sgd>(replicas[d].parameters(), 0.1));
    sync.attach(devices[d], *optimizers.back());
  }
  LocalControl control(1);
  std::vector<std::string> errors(2);
  on_every_device(2, [&](std::size_t d) {
    Linear& model = replicas[d];
    ListStream data({random_batch(4, d, devices[d])});
    ListStream held_out({random_batch(4, 2 + d, devices[d])});
    EagerTrainer<Batch> trainer(model, *optimizers[d], data,
                                [&](const Batch& batch) { return linear_losses(model, batch); },
                                {.sync = &sync, .device = devices[d], .evaluate_together = d == 0});
    trainer.set_evaluation(held_out);
    trainer.set_log([](std::string_view) {});
    const auto schedule = EpochSchedule::constant();
    try {
      if (d == 0)
        drive_distributed_training(control.root(), trainer, *schedule, {.epochs = {.max_epochs = 2}});
      else
        follow_distributed_training(control.follower(0), trainer, devices[0]);
    } catch (const std::exception& error) {
      errors[d] = error.what();
    }
  });
  for (const std::string& error : errors) CHECK(error.find("EagerOptions::evaluate_together") != std::string::npos);
}

TEST_CASE("driving: without validation the last model stays, and nothing of evaluation is needed") {
  const auto devices = test_devices(2);
  Learner learner = without_validation(devices);
  Models models{learner, {}};
  const auto schedule = EpochSchedule::constant();
  const LoopState state = local_data_parallel_training_loop(learner, *schedule,
                                                            {.epochs = {.max_epochs = 3, .validation_frequency = 0},
                                                             .checkpoint = [&](const DrivingState& s) { models(s); }});
  CHECK(state.epoch == 3);
  for (const LoopState::Epoch& epoch : state.learning_curve) CHECK_FALSE(epoch.validation);
  REQUIRE(models.after_epoch.size() == 3);
  CHECK(models.after_epoch[1] != models.after_epoch[2]);
  for (std::size_t d = 0; d < 2; ++d) CHECK(weights(learner.replica(d)) == models.after_epoch.back());

  Learner other = without_validation(devices);
  CHECK_THROWS_WITH_AS(
      local_data_parallel_training_loop(
          other, *schedule,
          {.epochs = {.max_epochs = 3, .validation_frequency = 0, .eligible = [](std::int64_t) { return true; }}}),
      doctest::Contains("a best model needs"), Error);
  Learner asked = without_validation(devices, LearnerOptions::Evaluation::all);
  CHECK_THROWS_WITH_AS(local_data_parallel_training_loop(asked, *schedule, {.epochs = {.max_epochs = 3}}),
                       doctest::Contains("has no evaluation data: give some, or validation_frequency 0"), Error);
  CHECK(other.main().iteration() == 0);
}

TEST_CASE("control: a deadline of never waits, and none is negative") {
  LocalControl control(1, std::chrono::milliseconds::max());
  std::thread follower([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    control.follower(0).join();
    CHECK(control.follower(0).receive().kind == DriverMessage::Kind::stop);
  });
  CHECK_NOTHROW(control.root().await_followers());
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  control.root().send({});
  follower.join();
  CHECK_THROWS_WITH_AS(LocalControl(1, std::chrono::milliseconds(-1)), doctest::Contains("[control, deadline] -1 ms"),
                       Error);
}

TEST_CASE("driving: a follower that is missing, failed or without a driver is said, not waited for") {
  LocalControl control(2, std::chrono::milliseconds(20));
  control.follower(0).join();
  CHECK_THROWS_WITH_AS(control.root().await_followers(), doctest::Contains("follower 1 of 2 has not joined"), Error);
  CHECK_THROWS_WITH_AS(control.follower(0).receive(), doctest::Contains("no word from the driver"), Error);
  control.follower(1).fail("no data");
  CHECK_THROWS_WITH_AS(control.root().await_followers(), doctest::Contains("follower 1 failed: no data"), Error);
  control.close();
  CHECK_THROWS_WITH_AS(control.follower(0).receive(), doctest::Contains("the driver is gone"), Error);
  DrivingState state;
  CHECK_THROWS_AS(state.load_text("{}"), DataError);
}

TEST_SUITE_END();
