// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/graph_trainer.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/nn/activation.h>
#include <tutti/nn/dropout.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/loss.h>
#include <tutti/nn/sequential.h>
#include <tutti/optim/adamw.h>
#include <tutti/tests/test_devices.h>
#include <tutti/tests/train/list_stream.h>
#include <tutti/train/data/joined.h>
#include <tutti/train/hooks/learning_rate.h>

#include <fmt/format.h>

#include <doctest/doctest.h>

#include <optional>

using namespace tutti;

namespace {

Sequential network() {
  Generator random(3);
  Sequential model(Linear(3, 16, random), ReLU(), Dropout(0.25, random), Linear(16, 2, random));
  model.detach_members_to(test_device());
  return model;
}

Losses losses_of(Sequential& model, const Batch& batch) {
  const Tensor y = model.forward(batch.inputs);
  return {
      {"main_loss", 4.0 * mse_loss(y, batch.targets)}, {"loss_of_size", 0.1 * mean(square(y))}, {"sum", abs(y).sum()}};
}

/// Seven batches, the last of them smaller.
std::vector<Batch> batches() {
  std::vector<Batch> all;
  for (std::uint64_t i = 0; i < 7; ++i) all.push_back(random_batch(i == 6 ? 2 : 4, 10 + i));
  return all;
}

/// Notes where it is called, with what the step gave.
class Noting : public Hook {
 public:
  explicit Noting(std::vector<std::string>& events) : events_(events) {}
  void before_train() override { events_.push_back("before_train"); }
  void after_epoch() override { events_.push_back("after_epoch"); }
  void after_data() override { events_.push_back("after_data"); }
  void after_evaluation(const Metrics& means) override { note("evaluation", means); }
  void after_step(const StepReport& report) override { note(std::to_string(report.global_step), report.metrics); }
  void end() override { events_.push_back("end"); }
  void after_train() override { events_.push_back("after_train"); }

 private:
  void note(std::string text, const Metrics& metrics) {
    for (const auto& [name, value] : metrics) text += fmt::format(" {}={}", name, value);
    events_.push_back(std::move(text));
  }
  std::vector<std::string>& events_;
};

struct Case {
  EagerOptions options = {};
  std::int64_t joined = 1;
  double initial_scale = 0;  // 0: no scaler
  std::int64_t frozen_from = kUnlimited;
};

struct Trained {
  std::vector<float> weights;
  std::vector<std::string> events;
  std::int64_t updates = 0;
  std::int64_t steps = 0;  // of the optimizer
  std::int64_t replayed = 0;
  double scale = 0;
};

template <class T> std::int64_t replays_of(const EagerTrainer<T>&) { return 0; }
template <class T> std::int64_t replays_of(const GraphTrainer<T>& trainer) { return trainer.captures().replayed; }

/// Six epochs with a schedule, evaluated now and then.
template <template <class> class TrainerOf> Trained train(const Case& how) {
  Sequential model = network();
  AdamW optimizer(model.parameters(), 0.02);
  const auto data = joined<Batch>(std::make_unique<ListStream>(batches()), how.joined);
  ListStream held_out({random_batch(3, 1), random_batch(1, 2)});
  std::optional<GradientScaler> scaler;
  EagerOptions options = how.options;
  if (how.initial_scale > 0) options.scaler = &scaler.emplace(GradientScalerOptions{how.initial_scale, 2, 0.5, 9});
  TrainerOf<Batch> trainer(
      model, optimizer, *data, [&](const Batch& batch) { return losses_of(model, batch); }, options);
  trainer.set_evaluation(held_out);
  Trained result;
  trainer.register_hook(std::make_shared<LearningRateSchedule>(optimizer, Schedule::cosine(0.02, 40)));
  trainer.register_hook(std::make_shared<Noting>(result.events));
  trainer.train_and_evaluate({.epochs = 3}, {.every_steps = 5});
  if (how.frozen_from < kUnlimited) model.parameters()[0].set_requires_grad(false);
  trainer.train_and_evaluate({.epochs = 6}, {.every_steps = 5});
  for (const Tensor& parameter : model.parameters())
    for (const float value : parameter.to_vector<float>()) result.weights.push_back(value);
  result.updates = trainer.updates();
  result.steps = optimizer.steps();
  result.replayed = replays_of(trainer);
  if (scaler) result.scale = scaler->scale();
  return result;
}

Trained check_same(const Case& how, std::int64_t least_replays) {
  const Trained eager = train<EagerTrainer>(how);
  const Trained graph = train<GraphTrainer>(how);
  CHECK(graph.weights == eager.weights);
  CHECK(graph.events == eager.events);
  CHECK(graph.updates == eager.updates);
  CHECK(graph.steps == eager.steps);
  CHECK(graph.scale == eager.scale);
  CHECK(graph.replayed >= least_replays);
  return graph;
}

}  // namespace

TEST_CASE("GraphTrainer: the same bits, hooks and metrics as EagerTrainer") {
  const Trained trained = check_same({}, 31);  // of 42, a capture for each of two shapes
  CHECK(trained.updates == 42);
  CHECK(trained.events.front() == "before_train");
  CHECK(trained.events.back() == "after_train");
}

TEST_CASE("GraphTrainer: with clipping, and metrics read now and then") {
  check_same({.options = {.max_norm = 0.3, .max_value = 0.1, .metrics_every = 4, .prefix = "p/"}}, 31);
}

TEST_CASE("GraphTrainer: accumulated batches, with those that remain, each a step or an update a step") {
  const Trained steps = check_same({.options = {.accumulation = 3, .max_norm = 0.3}}, 27);
  const Trained updates = check_same({.options = {.accumulation = 3, .max_norm = 0.3, .whole_updates = true}}, 27);
  CHECK(steps.updates == 18);
  CHECK(steps.weights == updates.weights);
}

TEST_CASE("GraphTrainer: concatenated batches") { CHECK(check_same({.joined = 2}, 14).updates == 24); }

TEST_CASE("GraphTrainer: autocast, and a scale of gradients that changes") {
  const Trained trained = check_same({.options = {.autocast = DType::bf16}, .initial_scale = 1e38}, 10);
  CHECK(trained.steps < trained.updates);  // gradients overflowed
  CHECK(trained.steps > 20);
}

TEST_CASE("GraphTrainer: a parameter that is frozen between runs") { check_same({.frozen_from = 0}, 26); }

TEST_CASE("EagerTrainer: an update a step takes all its batches; losses are averaged, other values summed") {
  Sequential model = network();
  AdamW optimizer(model.parameters(), 0.0);
  const std::vector<Batch> given{random_batch(4, 1), random_batch(2, 2), random_batch(3, 3)};
  ListStream data(given);
  const auto losses = [&](const Batch& batch) -> Losses {
    return {{"loss", mean(square(batch.inputs)) + 0.0 * model.parameters()[0].sum()}, {"sum", batch.inputs.sum()}};
  };
  EagerTrainer<Batch> trainer(model, optimizer, data, losses, {.accumulation = 2, .whole_updates = true});
  std::vector<std::string> events;
  trainer.register_hook(std::make_shared<Noting>(events));
  trainer.train({.epochs = 1});
  CHECK(trainer.iteration() == 2);
  CHECK(trainer.updates() == 2);
  const auto value = [&](std::size_t batch, std::size_t which) {
    return losses(given[batch])[which].second.item<double>();
  };
  const auto& loss = trainer.storage().find("loss")->history;
  const auto& sum = trainer.storage().find("sum")->history;
  REQUIRE(loss.size() == 2);
  CHECK(loss[0].value == doctest::Approx((4 * value(0, 0) + 2 * value(1, 0)) / 6));
  CHECK(sum[0].value == doctest::Approx(value(0, 1) + value(1, 1)));
  CHECK(loss[1].value == doctest::Approx(value(2, 0)));
  CHECK(sum[1].value == doctest::Approx(value(2, 1)));
}

TEST_CASE("EagerTrainer: an update whose batches cannot all be read loses none of them") {
  struct Failing : ListStream {
    using ListStream::ListStream;
    std::optional<Batch> next() override {
      if (++calls == 5) throw DataError("the folder is away");
      return ListStream::next();
    }
    int calls = 0;
  };
  Sequential model = network();
  AdamW optimizer(model.parameters(), 0.01);
  Failing data(batches());
  std::vector<float> seen;
  const auto losses = [&](const Batch& batch) -> Losses {
    seen.push_back(batch.inputs.to_vector<float>().front());
    return losses_of(model, batch);
  };
  EagerTrainer<Batch> trainer(model, optimizer, data, losses, {.accumulation = 3, .whole_updates = true});
  trainer.set_log([](std::string_view) {});
  CHECK_THROWS_WITH_AS(trainer.train({.epochs = 1}), doctest::Contains("is away"), DataError);
  trainer.train({.epochs = 1});
  std::vector<float> expected;
  for (const Batch& batch : batches()) expected.push_back(batch.inputs.to_vector<float>().front());
  CHECK(seen == expected);
}

namespace {

/// Either of two, of one shape.
struct Sided {
  Tensor left;
  Tensor right;
  void visit_tensors(const std::function<void(Tensor&)>& f) { f(left), f(right); }
};

class SidedStream : public DataStream<Sided> {
 public:
  std::optional<Sided> next() override {
    if (at_ == 6) return {};
    const Tensor x = random_batch(4, static_cast<std::uint64_t>(at_)).inputs;
    return at_++ % 2 == 0 ? Sided{.left = x, .right = {}} : Sided{.left = {}, .right = x};
  }
  void start_epoch(std::int64_t) override { at_ = 0; }
  std::string position() const override { return std::to_string(at_); }
  void seek(const std::string& position) override { at_ = std::stoi(position); }

 private:
  int at_ = 0;
};

template <template <class> class TrainerOf> std::vector<float> weights_of_sides() {
  Sequential model = network();
  AdamW optimizer(model.parameters(), 0.02);
  SidedStream data;
  const auto losses = [&](const Sided& item) -> Losses {
    const bool left = item.left.defined();
    return {{"loss", (left ? 1.0 : -0.5) * mean(square(model.forward(left ? item.left : item.right)))}};
  };
  TrainerOf<Sided> trainer(model, optimizer, data, losses);
  trainer.train({.epochs = 2});
  return model.parameters()[0].template to_vector<float>();
}

}  // namespace

TEST_CASE("GraphTrainer: items with other tensors defined are not taken for each other") {
  CHECK(weights_of_sides<GraphTrainer>() == weights_of_sides<EagerTrainer>());
}

TEST_CASE("GraphTrainer: a branch that changes is captured anew where the trainer is told, and found out where not") {
  Sequential model = network();
  AdamW optimizer(model.parameters(), 0.02);
  ListStream data({random_batch(4, 1)});
  bool squared = false;
  const auto losses = [&](const Batch& batch) -> Losses {
    const Tensor y = model.forward(batch.inputs);
    return {{"loss", squared ? mean(square(y)) : mean(abs(y))}};
  };
  GraphTrainer<Batch> trainer(model, optimizer, data, losses, {}, {.check_every = 4});
  trainer.set_log([](std::string_view) {});
  trainer.train({.steps = 20});
  CHECK(trainer.captures().captured == 6);  // two, and checks after 1, 2, 4 and 4 replays
  squared = true;
  SUBCASE("told") {
    trainer.invalidate("another loss");
    CHECK(trainer.captures().reason == "another loss");
    trainer.train({.steps = 23});
    CHECK(trainer.captures().captured == 8);
  }
  SUBCASE("not told") {
    CHECK_THROWS_WITH_AS(trainer.train({.steps = 40}), doctest::Contains("4 steps before, which were replayed"),
                         CaptureError);
    CHECK(trainer.iteration() == 22);
  }
}

TEST_CASE("GraphTrainer: losses that change with the epoch are found out, with short epochs and in short runs too") {
  using Factor = std::function<double(std::int64_t epoch)>;
  /// Steps before it was, in epochs of so many.
  const auto steps_before = [](std::int64_t steps, std::int64_t epochs, const Factor& factor) {
    Sequential model = network();
    AdamW optimizer(model.parameters(), 0.02);
    ListStream data(std::vector<Batch>(static_cast<std::size_t>(steps), random_batch(4, 1)));
    GraphTrainer<Batch>* self = nullptr;
    GraphTrainer<Batch> trainer(model, optimizer, data, [&](const Batch& batch) -> Losses {
      return {{"loss", mean(square(model.forward(batch.inputs))) * factor(self->epoch())}};
    });
    self = &trainer;
    trainer.set_log([](std::string_view) {});
    CHECK_THROWS_AS(trainer.train({.epochs = epochs}), CaptureError);
    return trainer.iteration();
  };
  const auto annealed = [](std::int64_t epoch) { return 1.0 / static_cast<double>(1 + epoch); };
  const auto ends_at = [](std::int64_t last) { return [=](std::int64_t epoch) { return epoch < last ? 1.0 : 0.0; }; };
  CHECK(steps_before(4, 20, annealed) == 4);
  CHECK(steps_before(4, 4, ends_at(2)) == 12);
  CHECK(steps_before(120, 4, ends_at(3)) == 360);  // as soon as the epoch begins
}

TEST_CASE("GraphTrainer: what cannot be replayed ends training, and says why") {
  Sequential model = network();
  AdamW optimizer(model.parameters(), 0.02);
  ListStream data({random_batch(4, 1), random_batch(4, 2)});
  const auto train_with = [&](const EagerTrainer<Batch>::LossFunction& losses) {
    GraphTrainer<Batch> trainer(model, optimizer, data, losses);
    trainer.set_log([](std::string_view) {});
    trainer.train({.steps = 6});
  };
  CHECK_THROWS_WITH_AS(train_with([&](const Batch& batch) -> Losses {
                         const Tensor loss = mean(square(model.forward(batch.inputs)));
                         return {{"loss", loss.item<float>() > 0 ? loss : -loss}};
                       }),
                       doctest::Contains("on the host"), CaptureError);
  int steps = 0;
  CHECK_THROWS_WITH_AS(train_with([&](const Batch& batch) -> Losses {
                         return {{++steps > 1 ? "b_loss" : "a_loss", mean(square(model.forward(batch.inputs)))}};
                       }),
                       doctest::Contains("results are b_loss, of steps before they were a_loss"), CaptureError);
  CHECK_THROWS_WITH_AS(train_with([&](const Batch& batch) -> Losses {
                         return {{"x", mean(batch.inputs)}};
                       }),
                       doctest::Contains("nothing to minimise"), Error);
}
