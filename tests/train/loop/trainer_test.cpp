// SPDX-License-Identifier: Apache-2.0
// The loop and its hooks, without a model.
#include <tutti/train/trainer.h>

#include <tutti/autodiff/tensor.h>
#include <tutti/backend/error.h>

#include <fmt/format.h>

#include <doctest/doctest.h>

#include <stdexcept>

using namespace tutti;

namespace {

/// Epochs of `length` steps, divided into windows as `windows` says: lengths, negative ones are skipped.
class CountingTrainer : public Trainer {
 public:
  explicit CountingTrainer(std::int64_t length, std::vector<std::int64_t> windows = {})
      : length_(length), windows_(std::move(windows)) {
    set_log([this](std::string_view line) { logged.emplace_back(line); });
  }

  std::vector<std::string> logged;
  std::vector<std::int64_t> epochs_started;
  bool training = false;
  std::int64_t fails_at = -1;
  std::int64_t evaluation_length = 2;
  int finished = 0;

 protected:
  void start_epoch(std::int64_t epoch) override {
    epochs_started.push_back(epoch);
    at_ = 0;
    next_ = 0;
  }
  NextWindow next_window() override {
    if (windows_.empty()) return Trainer::next_window();
    if (next_ == windows_.size()) return NextWindow::end;
    at_ = 0;
    length_ = windows_[next_++];
    return length_ < 0 ? NextWindow::skip : NextWindow::ready;
  }
  bool next_data() override { return at_++ < length_; }
  Metrics run_step() override {
    if (iteration() == fails_at) throw std::runtime_error("the step broke");
    CHECK(training);
    CHECK_FALSE(inference_enabled());
    return {{"loss", static_cast<double>(iteration())}};
  }
  void finish_updates() override { ++finished; }
  void set_training(bool on) override { training = on; }
  void start_evaluation() override { evaluated_ = 0; }
  bool next_evaluation_data() override { return evaluated_++ < evaluation_length; }
  Metrics run_evaluation_step() override {
    CHECK_FALSE(training);
    CHECK(inference_enabled());
    if (fails_at == -2) throw std::runtime_error("the evaluation broke");
    return {{"error", static_cast<double>(evaluated_)}};
  }
  double data_weight() override { return static_cast<double>(evaluated_); }

 private:
  std::int64_t length_;
  std::vector<std::int64_t> windows_;
  std::size_t next_ = 0;  // window
  std::int64_t at_ = 0;
  std::int64_t evaluated_ = 0;
};

/// Writes down what it is called for.
class Recorder : public Hook {
 public:
  Recorder(std::string& text, std::string mark = "") : text_(text), mark_(std::move(mark)) {}
  void before_train() override { text_ += mark_ + "train("; }
  void end() override { text_ += mark_ + "end "; }
  void after_train() override { text_ += mark_ + ")"; }
  void before_evaluation() override { text_ += mark_ + "eval("; }
  void after_evaluation(const Metrics& means) override {
    text_ += mark_ + fmt::format("{})", means.contains("error") ? means.at("error") : -1);
  }
  void before_epoch() override { text_ += mark_ + "e{"; }
  void after_epoch() override { text_ += mark_ + "}"; }
  void before_window() override { text_ += mark_ + "["; }
  void after_window() override { text_ += mark_ + "]"; }
  void before_step() override { text_ += mark_ + "b"; }
  void after_data() override { text_ += mark_ + "d"; }
  void after_step(const StepReport& report) override {
    text_ += mark_ + fmt::format("{}{} ", report.training ? "s" : "v", report.global_step);
  }
  void out_of_data() override { text_ += mark_ + "o"; }

 private:
  std::string& text_;
  std::string mark_;
};

class Throwing : public Hook {
 public:
  explicit Throwing(std::string where) : where_(std::move(where)) {}
  void before_train() override { throw_in("before_train"); }
  void after_step(const StepReport&) override { throw_in("after_step"); }
  void after_train() override { throw_in("after_train"); }

 private:
  void throw_in(const std::string& place) const {
    if (where_ == place) throw std::runtime_error("the hook broke in " + place);
  }
  std::string where_;
};

}  // namespace

TEST_SUITE_BEGIN("cpu");

TEST_CASE("Trainer: hooks are called at each point of the loop, in the order of registration; null is ignored") {
  std::string text;
  CountingTrainer trainer(2);
  trainer.register_hooks({nullptr, std::make_shared<Recorder>(text)});
  trainer.train({.epochs = 2});
  CHECK(text == "train(e{[bds1 bds2 ]o}e{[bds3 bds4 ]o}end )");
  CHECK(trainer.completed());
  CHECK(trainer.iteration() == 4);
  CHECK(trainer.epoch() == 2);
  CHECK(trainer.epochs_started == std::vector<std::int64_t>{0, 1});

  text.clear();
  CountingTrainer two(1);
  two.register_hooks({std::make_shared<Recorder>(text, "1"), std::make_shared<Recorder>(text, "2")});
  two.train({.steps = 1});
  CHECK(text == "1train(2train(1e{2e{1[2[1b2b1d2d1s1 2s1 1]2]1}2}1end 2end 1)2)");
}

TEST_CASE("Trainer: windows are passed one after the other, skipped ones without hooks") {
  std::string text;
  CountingTrainer trainer(0, {2, -1, 1, 0});
  trainer.register_hook(std::make_shared<Recorder>(text));
  trainer.train({.epochs = 1});
  CHECK(text == "train(e{[bds1 bds2 ][bds3 ][]o}end )");
}

TEST_CASE("Trainer: limits end windows and epochs as if their data were out") {
  const auto said = [](const TrainingLimits& limits) {
    std::string text;
    CountingTrainer trainer(0, {2, -1, 3, 1});
    trainer.register_hook(std::make_shared<Recorder>(text));
    trainer.train(limits);
    return text;
  };
  CHECK(said({.epochs = 1, .steps_per_window = 2}) == "train(e{[bds1 bds2 ][bds3 bds4 ][bds5 ]o}end )");
  CHECK(said({.epochs = 1, .windows_per_epoch = 2}) == "train(e{[bds1 bds2 ][bds3 bds4 bds5 ]o}end )");
  CHECK(said({.epochs = 2, .steps_per_window = 1, .windows_per_epoch = 1}) == "train(e{[bds1 ]o}e{[bds2 ]o}end )");
}

TEST_CASE("Trainer: it ends within a window and goes on there, whose steps count on") {
  std::string text;
  CountingTrainer trainer(0, {3, -1, 4});
  trainer.register_hook(std::make_shared<Recorder>(text));
  trainer.train({.steps = 2, .steps_per_window = 3});
  trainer.train({.steps = 4, .steps_per_window = 3});
  trainer.train({.epochs = 1, .steps_per_window = 3});
  CHECK(text == "train(e{[bds1 bds2 ]}end )train(e{[bds3 ][bds4 ]}end )train(e{[bds5 bds6 ]o}end )");
  CHECK(trainer.finished == 4);  // what is accumulated is used at each window's end, and where training ends
}

TEST_CASE("Trainer: evaluates after windows, one that was due also when it is resumed") {
  std::string text;
  CountingTrainer trainer(0, {1, 1, 2});
  struct Keeping : Hook {
    void after_window() override {
      if (!trainer().evaluating() && trainer().window() == 2) state = trainer().state();
    }
    std::string state;
  };
  const auto keeping = std::make_shared<Keeping>();
  trainer.register_hooks({keeping, std::make_shared<Recorder>(text)});
  trainer.train_and_evaluate({.epochs = 1}, {.every_windows = 2, .steps = 1});
  CHECK(text == "train(e{[bds1 ][bds2 ]eval([bdv2 ]1)[bds3 bds4 ]o}end )");
  CountingTrainer resumed(0, {2});  // what is left
  text.clear();
  resumed.load_state(keeping->state);
  resumed.register_hook(std::make_shared<Recorder>(text));
  resumed.train_and_evaluate({.epochs = 1}, {.every_windows = 2, .steps = 1});
  CHECK(text == "train(eval([bdv2 ]1)e{[bds3 bds4 ]o}end )");
}

TEST_CASE("Trainer: a state of an epoch's end is behind it, the evaluation that is due included") {
  std::string text;
  CountingTrainer trainer(2);
  struct Keeping : Hook {
    void after_epoch() override {
      states.push_back(trainer().state());
      CHECK(trainer().epoch() + 1 == std::ssize(states));
    }
    std::vector<std::string> states;
  };
  const auto keeping = std::make_shared<Keeping>();
  trainer.register_hooks({keeping, std::make_shared<Recorder>(text)});
  trainer.train_and_evaluate({.epochs = 3}, {.every_epochs = 2, .steps = 1});
  CHECK(text == "train(e{[bds1 bds2 ]o}e{[bds3 bds4 ]o}eval([bdv4 ]1)e{[bds5 bds6 ]o}end )");
  const std::string rest[] = {"train(e{[bds3 bds4 ]o}eval([bdv4 ]1)e{[bds5 bds6 ]o}end )",
                              "train(eval([bdv4 ]1)e{[bds5 bds6 ]o}end )", "train(end )"};
  for (std::size_t epoch = 0; epoch < 3; ++epoch) {
    CAPTURE(epoch);
    CountingTrainer resumed(2);
    text.clear();
    resumed.load_state(keeping->states[epoch]);
    CHECK(resumed.epoch() == static_cast<std::int64_t>(epoch) + 1);
    resumed.register_hook(std::make_shared<Recorder>(text));
    resumed.train_and_evaluate({.epochs = 3}, {.every_epochs = 2, .steps = 1});
    CHECK(text == rest[epoch]);
  }
  // In out_of_data the epoch's last hooks are still to come.
  class Early : public Hook {
   public:
    void out_of_data() override { state = trainer().state(); }
    std::string state;
  };
  const auto early = std::make_shared<Early>();
  CountingTrainer until(2);
  until.register_hook(early);
  until.train({.epochs = 1});
  CountingTrainer again(2);
  text.clear();
  again.load_state(early->state);
  again.register_hook(std::make_shared<Recorder>(text));
  again.train({.epochs = 1});
  CHECK(text == "train(e{o}end )");
  CHECK_THROWS_WITH_AS(trainer.evaluate(-3), "[trainer] an evaluation of -3 steps", Error);
}

TEST_CASE("Trainer: it ends within an epoch and goes on there") {
  CountingTrainer trainer(3);
  trainer.train({.steps = 4});
  CHECK(trainer.iteration() == 4);
  CHECK(trainer.epoch() == 1);
  CHECK(trainer.finished == 2);  // what is accumulated is used at the end of data and of training
  trainer.train({.steps = 5});
  CHECK(trainer.epochs_started == std::vector<std::int64_t>{0, 1});  // the epoch was not begun again
  trainer.train({.steps = 5});                                       // nothing to do
  CHECK(trainer.completed());
  CHECK(trainer.start_iteration() == 5);
  CHECK(trainer.iteration() == 5);
}

TEST_CASE("Trainer: resumed at or after the end it makes no step, and completes") {
  std::string text;
  CountingTrainer first(3);
  first.train({.steps = 7});
  CountingTrainer resumed(3);
  resumed.register_hook(std::make_shared<Recorder>(text));
  resumed.load_state(first.state());
  CHECK(resumed.iteration() == 7);
  CHECK(resumed.epoch() == 2);
  resumed.train({.steps = 5});
  CHECK(text == "train(end )");
  CHECK(resumed.completed());
  CHECK(resumed.iteration() == 7);
  CHECK_THROWS_AS(resumed.load_state("nonsense"), DataError);
  CHECK_THROWS_AS(resumed.load_state(R"({"iteration": -1, "epoch": 0, "window": 0, "storage": ""})"), DataError);
  CHECK(resumed.iteration() == 7);
}

TEST_CASE("Trainer: an error in a step is logged and thrown on, and every after_train runs") {
  std::string text;
  CountingTrainer trainer(3);
  trainer.fails_at = 1;
  trainer.register_hooks({std::make_shared<Throwing>("after_train"), std::make_shared<Recorder>(text)});
  CHECK_THROWS_WITH(trainer.train({.steps = 3}), "the step broke");  // not what the hook threw afterwards
  CHECK(text == "train(e{[bds1 bd)");
  CHECK_FALSE(trainer.completed());
  CHECK_FALSE(trainer.running());
  REQUIRE(trainer.logged.size() == 2);
  CHECK(trainer.logged[0] == "training failed at step 1 of epoch 0: the step broke");
  CHECK(trainer.logged[1] == "after training, hook 1 (Throwing) failed: the hook broke in after_train");
}

TEST_CASE("Trainer: an error of a hook ends the run, wherever it is") {
  for (const char* place : {"before_train", "after_step", "after_train"}) {
    CAPTURE(place);
    std::string text;
    CountingTrainer trainer(3);
    trainer.register_hooks({std::make_shared<Throwing>(place), std::make_shared<Recorder>(text)});
    CHECK_THROWS_WITH(trainer.train({.steps = 3}), doctest::Contains(place));
    CHECK_FALSE(trainer.completed());
    CHECK(text.back() == ')');
    REQUIRE(trainer.logged.size() == 1);
    CHECK(trainer.logged[0].find("hook 1 (Throwing)") != std::string::npos);
  }
}

TEST_CASE("Trainer: the log names the hook that an error came from, through an evaluation too") {
  class Evaluating : public Hook {
   public:
    explicit Evaluating(bool catches) : catches_(catches) {}
    void after_step(const StepReport& report) override {
      if (!report.training) return;
      try {
        trainer().evaluate();
      } catch (const std::exception&) {
        if (!catches_) throw;
      }
    }

   private:
    bool catches_;
  };
  class Breaking : public Hook {
    void after_step(const StepReport& report) override {
      if (!report.training) throw std::runtime_error("broken inside");
    }
  };
  CountingTrainer trainer(3);
  trainer.register_hooks({nullptr, std::make_shared<Evaluating>(false), std::make_shared<Breaking>()});
  CHECK_THROWS_WITH(trainer.train({.steps = 3}), "broken inside");
  CHECK(trainer.logged.at(0) == "training failed at step 1 of epoch 0, in hook 2 (Breaking): broken inside");
  CountingTrainer catching(3);
  catching.register_hooks({std::make_shared<Evaluating>(true), std::make_shared<Breaking>()});
  catching.fails_at = 1;
  CHECK_THROWS_WITH(catching.train({.steps = 3}), "the step broke");
  CHECK(catching.logged.at(0) == "training failed at step 1 of epoch 0: the step broke");
}

TEST_CASE("Trainer: a hook knows its trainer while both live, and has one only") {
  class Asking : public Hook {
   public:
    std::int64_t ask() const { return trainer().iteration(); }
  };
  const auto hook = std::make_shared<Asking>();
  CHECK_THROWS_WITH_AS(hook->ask(), doctest::Contains("no trainer"), Error);
  {
    CountingTrainer trainer(1);
    trainer.register_hook(hook);
    CHECK_THROWS_WITH_AS(trainer.register_hook(hook), doctest::Contains("belongs to a trainer"), Error);
    trainer.train({.steps = 3});
    CHECK(hook->ask() == 3);
  }
  CHECK_THROWS_WITH_AS(hook->ask(), doctest::Contains("no trainer"), Error);
}

TEST_CASE("Trainer: evaluates in evaluation mode, without gradients, and restores training mode whatever happens") {
  std::string text;
  CountingTrainer trainer(2);
  trainer.register_hook(std::make_shared<Recorder>(text));
  trainer.train_and_evaluate({.epochs = 1}, {.every_steps = 2, .every_epochs = 1, .steps = 1});
  CHECK(text == "train(e{[bds1 bds2 eval([bdv2 ]1)]o}eval([bdv2 ]1)end )");
  CHECK(trainer.training);
  CHECK(trainer.evaluate().at("error") == doctest::Approx((1 * 1 + 2 * 2) / 3.0));  // by weight
  trainer.fails_at = -2;
  CHECK_THROWS_WITH(trainer.evaluate(), "the evaluation broke");
  CHECK(trainer.training);
  CHECK_FALSE(trainer.evaluating());
}

TEST_CASE("Trainer: stop ends it after the step, from any hook, and says why") {
  class Stopping : public Hook {
    void after_step(const StepReport& report) override {
      if (report.global_step == 2) trainer().stop("enough");
    }
  };
  std::string text;
  CountingTrainer trainer(10);
  trainer.register_hooks({std::make_shared<Stopping>(), std::make_shared<Recorder>(text)});
  trainer.train({.steps = 100});
  CHECK(text == "train(e{[bds1 bds2 ]}end )");
  CHECK(trainer.stop_reason() == "enough");
  CHECK(trainer.completed());
  trainer.train({.steps = 3});  // the request was for that run
  CHECK(trainer.iteration() == 3);
}

TEST_CASE("Trainer: an epoch without data is an error, not an endless loop") {
  CountingTrainer empty(0);
  CHECK_THROWS_WITH_AS(empty.train({.steps = 1}), "[trainer] epoch 0 has no data", DataError);
  CountingTrainer skipping(0, {-1, 0});
  CHECK_THROWS_WITH_AS(skipping.train({.steps = 1}), "[trainer] epoch 0 has no data", DataError);
  CountingTrainer trainer(3);
  CHECK_THROWS_WITH_AS(trainer.train({.steps_per_window = 0}),
                       "[trainer] steps_per_window is 0: no epoch would have data", Error);
  CHECK_THROWS_WITH_AS(trainer.train({.windows_per_epoch = 0}), doctest::Contains("windows_per_epoch is 0"), Error);
  CHECK_THROWS_WITH_AS(trainer.train_and_evaluate({.steps = 1}, {.every_steps = 1, .steps = 0}),
                       doctest::Contains("evaluate nothing"), Error);
  CHECK(trainer.iteration() == 0);
}

TEST_CASE("Trainer: train within its own loop is refused, as are hooks") {
  class Recursive : public Hook {
    void after_step(const StepReport&) override {
      CHECK_THROWS_AS(trainer().train({.steps = 1}), Error);
      CHECK_THROWS_AS(trainer().register_hook(std::make_shared<Recursive>()), Error);
    }
  };
  CountingTrainer trainer(1);
  trainer.register_hook(std::make_shared<Recursive>());
  trainer.train({.steps = 1});
}

TEST_SUITE_END();
