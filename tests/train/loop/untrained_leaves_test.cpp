// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/loss.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/test_devices.h>
#include <tutti/tests/train/list_stream.h>
#include <tutti/train/eager_trainer.h>
#include <tutti/train/graph_trainer.h>
#include <tutti/train/learner.h>

#include <doctest/doctest.h>

using namespace tutti;

namespace {

struct TwoLayers : Module {
  Linear hidden;
  Linear output;
  bool shows_output;

  explicit TwoLayers(bool shows, std::uint64_t seed = 1) : TwoLayers(shows, Generator(seed)) {}
  TwoLayers(bool shows, Generator random)
      : hidden(3, 4, random, {.device = test_device()}),
        output(4, 2, random, {.device = test_device()}),
        shows_output(shows) {}
  Tensor forward(const Tensor& x) const { return output.forward(relu(hidden.forward(x))); }
  void visit(MemberVisitor& v) override {
    v.module("hidden", hidden);
    if (shows_output) v.module("output", output);
  }
};

Losses losses_of(TwoLayers& model, const Batch& b) { return {{"loss", mse_loss(model.forward(b.inputs), b.targets)}}; }

std::vector<Batch> batches() { return {random_batch(4, 1), random_batch(4, 2), random_batch(4, 3)}; }

template <class TrainerType> void train(TwoLayers& model, EagerTrainer<Batch>::LossFunction losses,
                                        const EagerOptions& options = {}, std::vector<Tensor> more = {}) {
  std::vector<Tensor> parameters = model.parameters();
  parameters.insert(parameters.end(), more.begin(), more.end());
  Sgd optimizer(parameters, 0.1);
  ListStream stream(batches());
  EagerOptions here = options;
  here.device = test_device();
  TrainerType trainer(model, optimizer, stream, std::move(losses), here);
  trainer.set_log([](std::string_view) {});
  trainer.train({.steps = 3});
}

}  // namespace

TEST_CASE_TEMPLATE("trainers: a member that visit forgot ends training in its second step", TrainerType,
                   EagerTrainer<Batch>, GraphTrainer<Batch>) {
  TwoLayers model(false);
  const auto losses = [&](const Batch& b) { return losses_of(model, b); };
  CHECK_THROWS_WITH_AS(train<TrainerType>(model, losses),
                       doctest::Contains("is among neither the parameters of the "
                                         "model (TwoLayers) nor the optimizer's"),
                       Error);
  CHECK_THROWS_WITH_AS(train<TrainerType>(model, losses), doctest::Contains("read by linear"), Error);
  for (Tensor& frozen : model.output.parameters()) frozen.set_requires_grad(false);
  CHECK_NOTHROW(train<TrainerType>(model, losses));
}

TEST_CASE("EagerTrainer: what the optimizer has beside the model, and what is allowed, raises nothing") {
  TwoLayers model(false);
  const auto losses = [&](const Batch& b) { return losses_of(model, b); };
  CHECK_NOTHROW(train<EagerTrainer<Batch>>(model, losses, {.allow_other_leaves = true}));
  CHECK_NOTHROW(train<EagerTrainer<Batch>>(model, losses, {}, model.output.parameters()));
}

TEST_CASE("EagerTrainer: the losses of another copy of the model are refused") {
  TwoLayers model(true);
  TwoLayers trained = clone(model, test_device());
  CHECK_THROWS_WITH_AS(train<EagerTrainer<Batch>>(trained, [&](const Batch& b) { return losses_of(model, b); }),
                       doctest::Contains("nobody trains it"), Error);
}

TEST_CASE("EagerTrainer: inputs that require gradients, another in each step, are nobody's members") {
  TwoLayers model(true);
  CHECK_NOTHROW(train<EagerTrainer<Batch>>(model, [&](const Batch& b) -> Losses {
    Tensor inputs = b.inputs.detach();
    inputs.set_requires_grad(true);
    return {{"loss", mse_loss(model.forward(inputs), b.targets)}};
  }));
}

TEST_SUITE_BEGIN("cpu");  // groups of devices: each kind has an engine of its own

TEST_CASE("DataParallelLearner: a member that visit forgot is found by its trainers") {
  DataParallelLearner<TwoLayers, Batch> learner(
      TwoLayers(false),
      {.optimizer = [](TwoLayers& replica) { return std::make_unique<Sgd>(replica.parameters(), 0.1); },
       .data = [](std::size_t) { return std::make_unique<ListStream>(batches()); },
       .losses = losses_of},
      {.devices = {test_device(0)}});
  learner.main().set_log([](std::string_view) {});
  CHECK_THROWS_WITH_AS(learner.train({.steps = 3}), doctest::Contains("(TwoLayers)"), Error);
}

TEST_CASE("DataParallelLearner: a member that visit forgot stays on its device, which the other device's error tells") {
  DataParallelLearner<TwoLayers, Batch> learner(
      TwoLayers(false),
      {.optimizer = [](TwoLayers& replica) { return std::make_unique<Sgd>(replica.parameters(), 0.1); },
       .data =
           [](std::size_t d) { return std::make_unique<ListStream>(std::vector{random_batch(4, 1, test_device(d))}); },
       .losses = losses_of},
      {.devices = test_devices(2)});
  for (std::size_t d = 0; d < 2; ++d) learner.trainer(d).set_log([](std::string_view) {});
  CHECK_THROWS_WITH_AS(learner.train({.steps = 1}), doctest::Contains("that the model's `visit` does not show"),
                       DeviceError);
}

TEST_SUITE_END();
