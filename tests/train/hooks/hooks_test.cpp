// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/raise.h>
#include <tutti/optim/sgd.h>
#include <tutti/train/checkpoints/checkpoint_parts.h>
#include <tutti/train/hooks/callback.h>
#include <tutti/train/hooks/early_stopping.h>
#include <tutti/train/hooks/iteration_timer.h>
#include <tutti/train/hooks/learning_rate.h>
#include <tutti/train/hooks/periodic_writer.h>
#include <tutti/train/hooks/progress_bar.h>
#include <tutti/train/reporting/console_writer.h>
#include <tutti/train/trainer.h>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>
#include <thread>

using namespace tutti;

namespace {

/// Epochs of ten steps that do nothing; evaluations give the numbers of a list, one after the other.
class IdleTrainer : public Trainer {
 public:
  explicit IdleTrainer(std::vector<double> evaluations = {}) : evaluations_(std::move(evaluations)) {}

  std::optional<double> rate;  // put by each step

 protected:
  void start_epoch(std::int64_t) override { at_ = 0; }
  bool next_data() override { return at_++ < 10; }
  Metrics run_step() override {
    if (rate) storage().put_scalar("lr", *rate);
    return {};
  }
  void set_training(bool) override {}
  void start_evaluation() override { given_ = false; }
  bool next_evaluation_data() override { return !std::exchange(given_, true); }
  Metrics run_evaluation_step() override { return {{"error", evaluations_.at(evaluated_++)}}; }

 private:
  std::vector<double> evaluations_;
  std::size_t evaluated_ = 0;
  int at_ = 0;
  bool given_ = false;
};

/// Notes the iterations at which it was called.
class NotingWriter : public EventWriter {
 public:
  explicit NotingWriter(std::vector<std::int64_t>& calls) : calls_(calls) {}
  void write(const EventStorage& storage) override { calls_.push_back(storage.iteration()); }

 private:
  std::vector<std::int64_t>& calls_;
};

std::vector<std::unique_ptr<EventWriter>> noting(std::vector<std::int64_t>& calls) {
  std::vector<std::unique_ptr<EventWriter>> writers;
  writers.push_back(std::make_unique<NotingWriter>(calls));
  return writers;
}

}  // namespace

TEST_SUITE_BEGIN("cpu");

TEST_CASE("PeriodicWriter: writes every so many steps, after evaluations and at the end") {
  std::vector<std::int64_t> calls;
  IdleTrainer trainer({1});
  trainer.register_hook(std::make_shared<PeriodicWriter>(noting(calls), 4));
  trainer.train_and_evaluate({.steps = 9}, {.every_steps = 6});
  CHECK(calls == std::vector<std::int64_t>{3, 5, 7, 8});
  IdleTrainer other({1});
  other.register_hook(std::make_shared<PeriodicWriter>(std::make_unique<NotingWriter>(calls), 2));
  other.train({.steps = 2});
  CHECK(calls == std::vector<std::int64_t>{3, 5, 7, 8, 1, 1});
  CHECK_THROWS_AS(PeriodicWriter({}, 0), Error);
  CHECK_THROWS_AS(PeriodicWriter(std::unique_ptr<NotingWriter>()), Error);
  auto writers = noting(calls);
  writers.push_back(nullptr);
  CHECK_THROWS_WITH_AS(PeriodicWriter(std::move(writers)), "[periodic writer] writer 1 of 2 is null", Error);
}

TEST_CASE("LearningRateSchedule: sets the rate from the optimizer's own count of steps") {
  Sgd optimizer({Tensor(Array::zeros({1}, DType::f32, cpu()), true)}, 1.0);
  IdleTrainer trainer;
  std::vector<double> rates;
  trainer.register_hooks({std::make_shared<LearningRateSchedule>(optimizer, Schedule::step(1.0, 2, 0.5)),
                          std::make_shared<CallbackHook>(Callbacks{.after_step = [&](Trainer&, const StepReport&) {
                            rates.push_back(optimizer.learning_rate());
                            optimizer.step();
                          }})});
  trainer.train({.steps = 5});
  CHECK(rates == std::vector<double>{1, 1, 0.5, 0.5, 0.25});
  CHECK(trainer.storage().latest("lr")->value == 0.25);
  CHECK_THROWS_AS(LearningRateSchedule(optimizer, Schedule::constant(1), {.group = 3}), Error);
  CHECK_THROWS_AS(LearningRateSchedule(optimizer, Schedule::constant(1), {.steps_per_update = 0}), Error);
  trainer.rate = 0.5;
  CHECK_THROWS_WITH_AS(trainer.train({.steps = 6}), doctest::Contains("was put there as 0.5 too"), Error);

  Sgd shared({Tensor(Array::zeros({1}, DType::f32, cpu()), true)}, 1.0);
  IdleTrainer counting;
  counting.register_hook(std::make_shared<LearningRateSchedule>(shared, Schedule::step(1.0, 4, 0.5),
                                                                LearningRateOptions{.steps_per_update = 4}));
  counting.register_hook(
      std::make_shared<CallbackHook>(Callbacks{.after_step = [&](Trainer&, const StepReport&) { shared.step(); }}));
  counting.train({.steps = 3});
  CHECK(shared.learning_rate() == 0.25);
}

TEST_CASE("IterationTimer: leaves out the first steps and evaluations") {
  IdleTrainer trainer({1, 1, 1});
  const auto timer = std::make_shared<IterationTimer>(2);
  const auto sleep = [](Trainer&, const auto&) { std::this_thread::sleep_for(std::chrono::milliseconds(3)); };
  trainer.register_hooks(
      {timer, std::make_shared<CallbackHook>(Callbacks{.after_step = sleep, .after_evaluation = sleep})});
  trainer.train_and_evaluate({.steps = 6}, {.every_steps = 2});
  CHECK(timer->timed_steps() == 4);
  CHECK(timer->seconds() >= 4 * 0.003);
  const auto* series = trainer.storage().find("time");
  REQUIRE(series != nullptr);
  CHECK(series->history.size() == 4);
}

TEST_CASE("EarlyStopping: stops after so many evaluations without an improvement") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto steps_until_stop = [](std::vector<double> values, EarlyStoppingOptions options) {
    options.metric = "error";
    IdleTrainer trainer(std::move(values));
    trainer.register_hook(std::make_shared<EarlyStopping>(options));
    trainer.train_and_evaluate({.steps = 6}, {.every_steps = 1});
    return trainer.iteration();
  };
  CHECK(steps_until_stop({5, 4, 4, 4, 3, 2}, {.patience = 2}) == 4);
  CHECK(steps_until_stop({5, 4, 4, 3, 3, 2}, {.patience = 2}) == 6);
  CHECK(steps_until_stop({5, nan, nan, nan, 3, 2}, {.patience = 2}) == 3);
  CHECK(steps_until_stop({nan, nan, 1, 1, 1, 1}, {.patience = 2}) == 2);
  CHECK(steps_until_stop({5, 4.9, 4.8, 3, 3, 2}, {.patience = 2, .min_delta = 0.5}) == 3);
  CHECK(steps_until_stop({1, 2, 3, 2, 2, 2}, {.smaller_is_better = false, .patience = 3}) == 6);
  CHECK_THROWS_WITH_AS(steps_until_stop({1}, {.metric = "accuracy", .patience = 0}), doctest::Contains("patience"),
                       Error);
}

TEST_CASE("EarlyStopping: keeps its state, and names a metric that is missing") {
  const auto first = std::make_shared<EarlyStopping>(EarlyStoppingOptions{.metric = "error", .patience = 5});
  IdleTrainer trainer({0.1 + 0.2, 0.5, 0.7});
  trainer.register_hook(first);
  trainer.train_and_evaluate({.steps = 2}, {.every_steps = 1});
  trainer.evaluate();  // no part of training
  EarlyStopping second({.metric = "error", .patience = 5});
  second.load_state(first->state());
  CHECK(second.best() == 0.1 + 0.2);
  CHECK(second.without_improvement() == 1);
  CHECK_THROWS_AS(second.load_state("{}"), DataError);
  IdleTrainer other({1});
  other.register_hook(std::make_shared<EarlyStopping>(EarlyStoppingOptions{.metric = "accuracy"}));
  CHECK_THROWS_WITH_AS(other.train_and_evaluate({.steps = 1}, {.every_steps = 1}),
                       "[early stopping] the evaluation has no \"accuracy\": it gave error", Error);
}

TEST_CASE("Trainer: its state has its hooks', in any order of registering and loading, and those of one name apart") {
  const auto stopping = [](std::int64_t patience) {
    return std::make_shared<EarlyStopping>(EarlyStoppingOptions{.metric = "error", .patience = patience});
  };
  IdleTrainer first({5, 4, 6, 7});
  const auto strict = stopping(10);
  const auto lenient =
      std::make_shared<EarlyStopping>(EarlyStoppingOptions{.metric = "error", .patience = 20, .min_delta = 2});
  first.register_hooks({strict, std::make_shared<IterationTimer>(), lenient});
  first.train_and_evaluate({.steps = 4}, {.every_steps = 1});
  REQUIRE(strict->state() != lenient->state());

  IdleTrainer second({5});
  const std::vector<std::shared_ptr<EarlyStopping>> hooks{stopping(10), stopping(20), stopping(30)};
  second.register_hook(hooks[0]);
  second.load_state(first.state());
  CHECK(second.start_iteration() == 0);
  second.register_hooks({std::make_shared<IterationTimer>(), hooks[1], hooks[2]});
  CHECK(hooks[0]->state() == strict->state());
  CHECK(hooks[1]->state() == lenient->state());
  CHECK(hooks[2]->state() == stopping(1)->state());
  IdleTrainer between({5});  // of a run that has none of these hooks
  between.load_state(first.state());
  IdleTrainer third_run({5});
  third_run.load_state(between.state());
  const auto later = stopping(10);
  third_run.register_hook(later);
  CHECK(later->state() == strict->state());

  auto wrong = nlohmann::json::parse(first.state());
  wrong["hooks"][1][1] = "no state";
  IdleTrainer third({5});
  const auto kept = stopping(10);
  third.register_hooks({kept, stopping(20)});
  const std::string before = third.state();
  CHECK_THROWS_WITH_AS(third.load_state(wrong.dump()), doctest::Contains("[early stopping]"), DataError);
  CHECK(third.state() == before);
  wrong.erase("hooks");  // of an earlier version
  third.load_state(wrong.dump());
  CHECK(third.iteration() == 4);
  CHECK(kept->state() == stopping(1)->state());
}

TEST_CASE("Trainer: as a part of a checkpoint it changes nothing when another part refuses") {
  IdleTrainer run;
  bool refuses = true;
  CheckpointParts parts;
  parts.add("trainer", run);
  parts.add("other", {.save = [] { return PartState{}; },
                      .prepare = [&](const PartState&) -> Install {
                        if (refuses) raise<DataError>("[other] does not fit");
                        return [] {};
                      }});
  run.train({.steps = 2});
  const PartStates states = parts.save();
  run.train({.steps = 4});
  const auto starts = run.storage().starts();
  const std::string before = run.state();
  CHECK_THROWS_WITH_AS(parts.load(states), doctest::Contains("[other] does not fit"), DataError);
  CHECK(run.storage().starts() == starts);
  CHECK(run.state() == before);
  refuses = false;
  parts.load(states);
  CHECK(run.iteration() == 2);
}

namespace {

std::string contents_of(std::FILE* file) {
  std::rewind(file);
  std::string text;
  for (int c = 0; (c = std::fgetc(file)) != EOF;) text += static_cast<char>(c);
  return text;
}

std::string shown_by_bar(ProgressBarOptions options, bool terminal, const TrainingLimits& limits,
                         const EvaluationPlan& plan = {}, const TrainingLimits& then = {.steps = 0}) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), &std::fclose);
  options.progress.output = file.get();
  options.progress.terminal = terminal;
  options.progress.width = 100;
  options.progress.line_interval = std::chrono::hours(1);  // the last step
  IdleTrainer trainer(std::vector<double>(5, 1.0));
  trainer.register_hooks(
      {std::make_shared<ProgressBar>(options),
       std::make_shared<CallbackHook>(
           Callbacks{.before_step = [](Trainer& t) { t.storage().put_scalar("total_loss", 0.25); },
                     .after_evaluation = [&](Trainer&, const Metrics&) { std::fputs("[evaluated]", file.get()); }})});
  trainer.train_and_evaluate(limits, plan);
  trainer.train(then);
  return contents_of(file.get());
}

std::int64_t lines_in(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

}  // namespace

TEST_CASE("ProgressBar: lines of a run, however many epochs it has") {
  const auto lines = [](ProgressBarOptions options, const TrainingLimits& limits, const EvaluationPlan& plan = {},
                        const TrainingLimits& then = {.steps = 0}) {
    return shown_by_bar(std::move(options), false, limits, plan, then);
  };
  const std::string epochs = lines({.steps = 10}, {.epochs = 40});
  CHECK(epochs.starts_with("epoch 40/40  step 400/400  loss 0.2500"));
  CHECK(lines_in(epochs) == 1);
  CHECK(lines({}, {.steps = 25}).starts_with("step 25/25"));
  CHECK(lines({}, {.epochs = 2}).starts_with("epoch 2/2  step 20  loss 0.25"));
  CHECK(lines({.steps = 10}, {.steps = 13, .epochs = 2}).starts_with("epoch 2/2  step 13/13"));
  const std::string evaluated = lines({.steps = 10}, {.epochs = 1}, {.every_steps = 4});
  CHECK(evaluated == "[evaluated][evaluated]" + evaluated.substr(22));
  CHECK(lines_in(evaluated) == 1);
  // The next run has another, which goes on within an epoch.
  const std::string longer = lines({}, {.steps = 10}, {}, {.steps = 20});
  CHECK(longer.starts_with("step 10/10"));
  CHECK(longer.find("\nstep 20/20") != std::string::npos);
  const std::string resumed = lines({.steps = 10}, {.steps = 13}, {}, {.epochs = 2});
  CHECK(resumed.starts_with("step 13/13"));
  CHECK(resumed.find("\nepoch 2/2  step 20/20") != std::string::npos);
  CHECK_THROWS_WITH_AS(ProgressBar({.steps = -1}), "[progress bar] an epoch of -1 steps: below 0", Error);
}

TEST_CASE("ProgressBar: on a terminal one line for all epochs, and room for who prints after an evaluation") {
  const std::string text = shown_by_bar({.steps = 10}, true, {.epochs = 5}, {.every_epochs = 1});
  CHECK(lines_in(text) == 1);
  CHECK(text.find("epoch 1/5 [") != std::string::npos);
  CHECK(text.find("epoch 5/5 [########################################] step 50/50") != std::string::npos);
  CHECK(text.ends_with("\n"));
  std::size_t printed = 0;
  for (std::size_t at = 0; (at = text.find("[evaluated]", at)) != std::string::npos; ++at, ++printed)
    CHECK(text.substr(at - 4, 4) == "\r\x1b[K");  // at the beginning of a line that is empty
  CHECK(printed == 5);
}

TEST_CASE("ProgressBar: makes room for a console writer's lines, and shows a run that has made no step") {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), &std::fclose);
  const auto bar = std::make_shared<ProgressBar>(
      ProgressBarOptions{.progress = {.output = file.get(), .terminal = true, .width = 40}});
  IdleTrainer trainer(std::vector<double>(5, 1.0));
  trainer.register_hooks(
      {bar,
       std::make_shared<CallbackHook>(
           Callbacks{.before_step = [](Trainer& t) { t.storage().put_scalar("total_loss", 0.25); }}),
       std::make_shared<PeriodicWriter>(
           std::make_unique<ConsoleWriter>(ConsoleWriterOptions{.output = file.get(), .bar = bar.get()}), 2)});
  trainer.train({.steps = 4});
  const std::string text = contents_of(file.get());
  CHECK(text.starts_with("\r\x1b[K["));
  CHECK(text.find("] step 0/4") < text.find("step 1/4"));
  const std::size_t line = text.find("iteration 1  total_loss 0.25\n");
  REQUIRE(line != std::string::npos);
  CHECK(text.substr(line - 4, 4) == "\r\x1b[K");
  CHECK(text.find("step 3/4", line) != std::string::npos);
}

TEST_CASE("ProgressBar: nothing is written behind a training whose evaluation threw") {
  struct EndlessEvaluation : IdleTrainer {
    EndlessEvaluation() : IdleTrainer({1.0}) {}  // the second step has no number to give
    bool next_evaluation_data() override { return true; }
  };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), &std::fclose);
  ProgressOptions::Clock::time_point now{};
  const auto pass_time = [&](Trainer&) { now += std::chrono::seconds(2); };
  std::string text;
  {
    const auto bar = std::make_shared<ProgressBar>(ProgressBarOptions{
        .progress = {.output = file.get(), .terminal = true, .width = 80, .now = [&] { return now; }}});
    EndlessEvaluation trainer;
    trainer.set_log([](std::string_view) {});
    trainer.register_hooks({std::make_shared<CallbackHook>(Callbacks{.before_step = pass_time}), bar});
    CHECK_THROWS_AS(trainer.train_and_evaluate({.steps = 2}, {.every_steps = 2}), std::out_of_range);
    text = contents_of(file.get());
    CHECK(text.find("evaluation") != std::string::npos);
    bar->hide();
  }
  CHECK(contents_of(file.get()) == text);
}

TEST_CASE("ProgressBar: shows the steps of an evaluation that takes its time") {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), &std::fclose);
  ProgressOptions::Clock::time_point now{};
  IdleTrainer trainer(std::vector<double>(5, 1.0));
  trainer.register_hooks(
      {std::make_shared<CallbackHook>(Callbacks{.before_step = [&](Trainer&) { now += std::chrono::seconds(2); }}),
       std::make_shared<ProgressBar>(ProgressBarOptions{
           .evaluation_steps = 4,
           .progress = {.output = file.get(), .terminal = true, .width = 80, .now = [&] { return now; }}})});
  trainer.train_and_evaluate({.steps = 2}, {.every_steps = 2});
  const std::string text = contents_of(file.get());
  const std::size_t training = text.find("step 2/2");
  REQUIRE(training != std::string::npos);
  CHECK(text.find("\r\x1b[Kevaluation [", training) != std::string::npos);
  CHECK(text.find("step 1/4  0.5 steps/s  ETA 00:06", training) != std::string::npos);
  CHECK_THROWS_WITH_AS(ProgressBar({.evaluation_steps = -1}), "[progress bar] an evaluation of -1 steps: below 0",
                       Error);
}

TEST_SUITE_END();
