// SPDX-License-Identifier: Apache-2.0
// What a trainer takes as the results of a step, and what it makes of them.
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/test_devices.h>
#include <tutti/tests/train/linear_training.h>
#include <tutti/train/eager_trainer.h>

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

using namespace tutti;

namespace {

struct Setup {
  explicit Setup(std::function<Losses(const Batch&, Linear&)> losses, EagerOptions options = {})
      : trainer(
            model, sgd, data, [this, losses](const Batch& b) { return losses(b, model); }, options) {
    trainer.set_log([](std::string_view) {});
  }
  Linear model = linear_network();
  Sgd sgd{model.parameters(), 0.1};
  ListStream data{{random_batch(4, 1), random_batch(4, 2), random_batch(4, 3), random_batch(4, 4)}};
  EagerTrainer<Batch> trainer;
};

Tensor loss_of(const Batch& b, Linear& model) { return linear_losses(model, b)[0].second; }

}  // namespace

TEST_CASE("EagerTrainer: a result that is no named number is refused by name") {
  const auto refused = [](std::function<Losses(const Tensor&)> results, const char* text) {
    Setup setup([&](const Batch& b, Linear& model) { return results(loss_of(b, model)); });
    CHECK_THROWS_WITH_AS(setup.trainer.train({.steps = 1}), doctest::Contains(text), Error);
    CHECK(setup.sgd.steps() == 0);
  };
  refused([](const Tensor& l) { return Losses{{"loss", l}, {"loss", l}}; }, "two results are called \"loss\"");
  refused([](const Tensor& l) { return Losses{{"loss", l}, {"", l}}; }, "result 1 is called \"\"");
  refused([](const Tensor& l) { return Losses{{"a\nloss", l}}; }, "a name is one line of UTF-8");
  refused([](const Tensor& l) { return Losses{{"loss", l}, {"g\xfcte", l}}; }, "a name is one line of UTF-8");
  refused([](const Tensor&) { return Losses{{"loss", Tensor()}}; }, "result \"loss\" is undefined");
  refused(
      [](const Tensor& l) {
        return Losses{{"loss", l}, {"logits", zeros({10, 3}, {.device = l.device()})}};
      },
      "result \"logits\" is f32 [10, 3]: a loss or metric is one number");
}

TEST_CASE("EagerTrainer: total_loss is what was minimised, also of steps with other losses") {
  int step = 0;
  Setup setup(
      [&](const Batch& b, Linear& model) {
        const Tensor one = loss_of(b, model) * 0.0 + 1.0;
        return step++ % 2 == 0 ? Losses{{"loss", one}, {"aux_loss", one}} : Losses{{"loss", one}};
      },
      {.metrics_every = 4});
  setup.trainer.train({.epochs = 1});
  CHECK(setup.trainer.storage().find("total_loss")->history.back().value == 1.5);
  CHECK(setup.trainer.storage().find("aux_loss")->history.back().value == 1.0);
  CHECK(setup.trainer.storage().find("") == nullptr);
}

TEST_CASE("EagerTrainer: a weight that is negative or not finite is refused") {
  struct Weighted : Batch {
    double share = 1;
    double weight() const { return share; }
  };
  struct Stream : DataStream<Weighted> {
    std::optional<Weighted> next() override { return Weighted{random_batch(4, 1), share}; }
    void start_epoch(std::int64_t) override {}
    std::string position() const override { return ""; }
    void seek(const std::string&) override {}
    double share = 1;
  };
  for (const double share : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    Linear model = linear_network();
    Sgd sgd(model.parameters(), 0.1);
    Stream data;
    data.share = share;
    EagerTrainer<Weighted> trainer(model, sgd, data, [&](const Weighted& b) { return linear_losses(model, b); });
    trainer.set_log([](std::string_view) {});
    CHECK_THROWS_WITH_AS(trainer.train({.steps = 1}), doctest::Contains("the examples of step 0 weigh"), Error);
  }
}

TEST_CASE("EagerTrainer: after an evaluation the model is in the mode it was in") {
  Linear model = linear_network();
  Sgd sgd(model.parameters(), 0.1);
  ListStream data({random_batch(4, 1)});
  ListStream evaluation({random_batch(4, 2)});
  EagerTrainer<Batch> trainer(model, sgd, data, [&](const Batch& b) { return linear_losses(model, b); });
  trainer.set_evaluation(evaluation);
  model.eval();
  trainer.evaluate();
  CHECK_FALSE(model.training());
  trainer.train_and_evaluate({.steps = 1}, {.every_steps = 1});
  CHECK(model.training());
  trainer.evaluate();
  CHECK(model.training());
}

TEST_CASE("EagerTrainer: what is missing is told before a step is made") {
  Setup setup([](const Batch& b, Linear& model) { return Losses{{"loss", loss_of(b, model)}}; });
  CHECK_THROWS_WITH_AS(setup.trainer.train_and_evaluate({.epochs = 1}, {.every_epochs = 1}),
                       "[trainer] there are no evaluation data", Error);
  CHECK(setup.sgd.steps() == 0);
  CHECK_THROWS_WITH_AS(EagerTrainer<Batch>(setup.model, setup.sgd, setup.data, nullptr),
                       "[trainer] there is no loss function", Error);
}

TEST_CASE("Trainer: a hook's state that is no text is refused by the hook's name") {
  struct Binary : Hook {
    std::string state_name() const override { return "binary"; }
    std::string state() const override { return "\xff"; }
    void load_state(const std::string&) override {}
  };
  Setup setup([](const Batch& b, Linear& model) { return Losses{{"loss", loss_of(b, model)}}; });
  setup.trainer.register_hook(std::make_shared<Binary>());
  CHECK_THROWS_WITH_AS((void)setup.trainer.state(), "[trainer] the state of hook \"binary\" is no UTF-8 text", Error);
}

TEST_CASE("Trainer: limits and plans below 0 are refused before anything is done") {
  Setup setup([](const Batch& b, Linear& model) { return Losses{{"loss", loss_of(b, model)}}; });
  CHECK_THROWS_WITH_AS(setup.trainer.train({.steps = -1}), "[trainer] steps is -1: below 0", Error);
  CHECK_THROWS_WITH_AS(setup.trainer.train({.epochs = -2}), "[trainer] epochs is -2: below 0", Error);
  CHECK_THROWS_WITH_AS(setup.trainer.train_and_evaluate({.steps = 1}, {.every_steps = -3}),
                       "[trainer] every_steps is -3: below 0", Error);
  CHECK(setup.trainer.iteration() == 0);
}

TEST_SUITE_BEGIN("cpu");  // groups of devices: each kind has an engine of its own

TEST_CASE("DataParallelLearner: a metric that some steps lack counts with the examples that have it, on all devices") {
  const auto devices = test_devices(2);
  std::vector<int> steps(2, 0);
  LinearLearner learner(
      linear_network(),
      {.optimizer = [](Linear& m) { return std::make_unique<Sgd>(m.parameters(), 0.1); },
       .data = [&](std::size_t d) { return std::make_unique<ListStream>(std::vector{random_batch(4, d, devices[d])}); },
       .losses =
           [&](Linear& m, const Batch& b) {
             Losses results = linear_losses(m, b);
             const std::size_t d = b.inputs.device() == devices[0] ? 0 : 1;
             if (m.training()) return results;
             const bool first = steps[d]++ == 0;
             if (d == 1 || first) results.emplace_back("a", full({}, d == 0 ? 1.0 : 0.0, {.device = devices[d]}));
             return results;
           },
       .evaluation_data =
           [&](std::size_t d) {
             std::vector<Batch> own;
             for (std::uint64_t i = 0; i < 10; ++i) own.push_back(random_batch(2, i, devices[d]));
             return std::make_unique<ListStream>(own);
           }},
      {.devices = devices, .evaluation = LearnerOptions::Evaluation::all});
  learner.train_and_evaluate({.epochs = 1}, {.every_epochs = 1});
  CHECK(learner.main().storage().find("evaluation/a")->history.back().value == doctest::Approx(1.0 / 11));
}

TEST_SUITE_END();
