// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/eager_trainer.h>

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/loss.h>
#include <tutti/nn/sequential.h>
#include <tutti/optim/adamw.h>
#include <tutti/optim/clip.h>
#include <tutti/optim/gradient_scaler.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/close.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/test_devices.h>
#include <tutti/tests/train/list_stream.h>
#include <tutti/train/data/batches.h>

#include <doctest/doctest.h>

using namespace tutti;
using tutti::testing::check_close;

namespace {

Batch joined(const std::vector<Batch>& parts) {
  std::vector<Tensor> inputs;
  std::vector<Tensor> targets;
  std::int64_t size = 0;
  for (const Batch& part : parts) {
    inputs.push_back(part.inputs);
    targets.push_back(part.targets);
    size += part.size;
  }
  return {concatenate(inputs), concatenate(targets), size};
}

struct Setup {
  explicit Setup(double rate = 0.1) : model(3, 2, random), optimizer(model.parameters(), rate) {
    model.detach_members_to(test_device());
    rebuilt.emplace(model.parameters(), rate);
  }
  Generator random{7};
  Linear model;
  Sgd optimizer;
  std::optional<Sgd> rebuilt;
  Optimizer& sgd() { return *rebuilt; }

  EagerTrainer<Batch>::LossFunction losses() {
    return [this](const Batch& b) -> Losses { return {{"loss", mse_loss(model.forward(b.inputs), b.targets)}}; };
  }
  std::vector<float> weights() { return model.parameters()[0].to_vector<float>(); }
};

}  // namespace

TEST_CASE("EagerTrainer: the same bits as a loop written by hand") {
  const std::vector<Batch> batches{random_batch(4, 1), random_batch(4, 2), random_batch(2, 3)};
  Setup by_hand;
  for (int epoch = 0; epoch < 3; ++epoch)
    for (const Batch& b : batches) {
      by_hand.sgd().zero_grad();
      backward(by_hand.losses()(b)[0].second);
      clip_grad_norm(by_hand.model.parameters(), 0.5);
      by_hand.sgd().step();
    }
  Setup trained;
  ListStream data(batches);
  EagerTrainer<Batch> trainer(trained.model, trained.sgd(), data, trained.losses(), {.max_norm = 0.5});
  trainer.train({.epochs = 3});
  CHECK(trained.weights() == by_hand.weights());
  CHECK(trainer.iteration() == 9);
  CHECK(trainer.updates() == 9);
}

TEST_CASE("EagerTrainer: accumulated batches count by their examples, those at the end of the data too") {
  const std::vector<Batch> batches{random_batch(4, 1), random_batch(1, 2), random_batch(3, 3), random_batch(2, 4),
                                   random_batch(1, 5)};
  Setup whole;
  ListStream large({joined({batches[0], batches[1]}), joined({batches[2], batches[3]}), batches[4]});
  EagerTrainer<Batch> reference(whole.model, whole.sgd(), large, whole.losses());
  reference.train({.epochs = 2});

  Setup parts;
  ListStream small(batches);
  EagerTrainer<Batch> trainer(parts.model, parts.sgd(), small, parts.losses(), {.accumulation = 2});
  trainer.train({.epochs = 2});
  check_close(parts.weights(), whole.weights(), 1e-5);
  CHECK(trainer.updates() == 6);
  CHECK(trainer.iteration() == 10);
  CHECK(trainer.between_updates());
}

TEST_CASE("EagerTrainer: losses are summed, other results are reported, with a prefix") {
  Setup setup;
  ListStream data({random_batch(4, 1)});
  EagerTrainer<Batch> trainer(
      setup.model, setup.sgd(), data,
      [&](const Batch& b) -> Losses {
        const Tensor y = setup.model.forward(b.inputs);
        return {{"main_loss", mse_loss(y, b.targets)}, {"loss_of_size", 0.5 * mean(square(y))}, {"size", mean(abs(y))}};
      },
      {.prefix = "train/"});
  trainer.train({.steps = 1});
  const EventStorage& storage = trainer.storage();
  const auto value = [&](const char* name) {
    REQUIRE_MESSAGE(storage.latest(name), name);
    return storage.latest(name)->value;
  };
  CHECK(value("train/total_loss") == doctest::Approx(value("train/main_loss") + value("train/loss_of_size")));
  CHECK(value("train/size") > 0);
  CHECK(value("data_time") >= 0);

  Setup one;
  EagerTrainer<Batch> single(one.model, one.sgd(), data, one.losses());
  single.train({.steps = 1});
  CHECK(single.storage().latest("total_loss"));
  CHECK_FALSE(single.storage().latest("loss"));  // one value is not shown twice
  EagerTrainer<Batch> without(one.model, one.sgd(), data, [&](const Batch& b) -> Losses {
    return {{"x", mean(b.inputs)}};
  });
  without.set_log([](std::string_view) {});
  CHECK_THROWS_WITH_AS(without.train({.steps = 1}), doctest::Contains("nothing to minimise"), Error);
}

TEST_CASE("EagerTrainer: values of several steps are read together, as their mean by examples") {
  Setup setup(0.0);
  ListStream data({random_batch(4, 1), random_batch(1, 2), random_batch(3, 3)});
  EagerTrainer<Batch> trainer(setup.model, setup.sgd(), data, setup.losses(), {.metrics_every = 2});
  trainer.train({.steps = 3});
  const auto loss = [&](std::int64_t size, std::uint64_t seed) {
    return setup.losses()(random_batch(size, seed))[0].second.item<double>();
  };
  const auto& history = trainer.storage().find("total_loss")->history;
  REQUIRE(history.size() == 2);  // the last step's by itself
  CHECK(history[0].value == doctest::Approx((4 * loss(4, 1) + loss(1, 2)) / 5));
  CHECK(history[1].value == doctest::Approx(loss(3, 3)));
  CHECK(trainer.take_mean_loss() == doctest::Approx((4 * loss(4, 1) + loss(1, 2) + 3 * loss(3, 3)) / 8));
}

TEST_CASE("EagerTrainer: refuses a model in evaluation mode, and options that cannot be") {
  Setup setup;
  ListStream data({random_batch(4, 1)});
  EagerTrainer<Batch> trainer(setup.model, setup.sgd(), data, [&](const Batch& b) -> Losses {
    setup.model.eval();
    return setup.losses()(b);
  });
  trainer.set_log([](std::string_view) {});
  CHECK_THROWS_WITH_AS(trainer.train({.steps = 2}), doctest::Contains("evaluation mode"), Error);
  CHECK(trainer.iteration() == 1);
  CHECK_THROWS_AS((EagerTrainer<Batch>(setup.model, setup.sgd(), data, setup.losses(), {.accumulation = 0})), Error);
  CHECK_THROWS_WITH_AS((EagerTrainer<Batch>(setup.model, setup.sgd(), data, setup.losses(), {.max_norm = -1.0})),
                       "[trainer] max_norm is -1: it must be positive", Error);
  CHECK_THROWS_WITH_AS((EagerTrainer<Batch>(setup.model, setup.sgd(), data, setup.losses(), {.max_value = 0.0})),
                       "[trainer] max_value is 0: it must be positive", Error);
  CHECK_THROWS_WITH_AS(trainer.evaluate(), doctest::Contains("no evaluation data"), Error);
  CHECK_THROWS_WITH_AS(trainer.set_evaluation(data), doctest::Contains("are the training stream"), Error);
  Setup other;
  CHECK_THROWS_WITH_AS((EagerTrainer<Batch>(setup.model, other.sgd(), data, setup.losses())),
                       "[trainer] the optimizer has none of the model's 2 parameters", Error);
  const EagerTrainer<Batch> tables_only(setup.model, other.sgd(), data, setup.losses(),
                                        {.sparse_optimizer = &setup.sgd()});
  for (const std::string name : {"total_loss", "data_time", "iteration"}) {
    EagerTrainer<Batch> own(other.model, other.sgd(), data, [&](const Batch& b) -> Losses {
      return {{"loss", other.losses()(b)[0].second}, {name, mean(b.inputs)}};
    });
    own.set_log([](std::string_view) {});
    const std::string text = "[trainer] a result is called \"" + name + "\"";
    CHECK_THROWS_WITH_AS(own.train({.steps = 1}), doctest::Contains(text.c_str()), Error);
  }
}

TEST_CASE("EagerTrainer: a hook sees the step's data, in training and in an evaluation") {
  Setup setup;
  ListStream data({random_batch(4, 1), random_batch(3, 2), random_batch(2, 3)});
  ListStream held_out({random_batch(5, 5)});
  EagerTrainer<Batch> trainer(setup.model, setup.sgd(), data, setup.losses(),
                              {.accumulation = 2, .whole_updates = true});
  trainer.set_evaluation(held_out);
  struct Looking : Hook {
    explicit Looking(EagerTrainer<Batch>& looked_at) : typed(looked_at) {}
    void after_data() override { note(); }
    void after_step(const StepReport&) override { note(); }
    void note() {
      std::vector<std::int64_t> sizes;
      for (const Batch& batch : typed.items()) sizes.push_back(batch.inputs.shape()[0]);
      seen.push_back(std::move(sizes));
    }
    EagerTrainer<Batch>& typed;
    std::vector<std::vector<std::int64_t>> seen;
  };
  const auto looking = std::make_shared<Looking>(trainer);
  trainer.register_hook(looking);
  trainer.train_and_evaluate({.epochs = 1}, {.every_epochs = 1});
  CHECK(looking->seen == std::vector<std::vector<std::int64_t>>{{4, 3}, {4, 3}, {2}, {2}, {5}, {5}});
  CHECK(trainer.storage().samples() == 9);
}

TEST_CASE("EagerTrainer: a stop ends an evaluation by plan, not one that a hook makes") {
  Setup setup;
  ListStream data({random_batch(4, 1)});
  ListStream held_out(std::vector<Batch>(9, random_batch(3, 5)));
  EagerTrainer<Batch> trainer(setup.model, setup.sgd(), data, setup.losses());
  trainer.set_evaluation(held_out);
  struct Stopping : Hook {
    void after_step(const StepReport& report) override {
      if (report.training) {
        if (report.global_step == 1) trainer().evaluate();
      } else if (++evaluated == 2 || evaluated == 11) {
        trainer().stop("enough");
      }
    }
    void after_evaluation(const Metrics&) override { ++whole; }
    int evaluated = 0;
    int whole = 0;
  };
  const auto stopping = std::make_shared<Stopping>();
  trainer.register_hook(stopping);
  trainer.train_and_evaluate({.epochs = 5}, {.every_epochs = 1});
  CHECK(stopping->evaluated == 9);  // the hook's own, and then training stops
  CHECK(trainer.iteration() == 1);
  CHECK(trainer.stop_reason() == "enough");
  trainer.train_and_evaluate({.epochs = 5}, {.every_epochs = 1});
  CHECK(stopping->evaluated == 11);
  CHECK(stopping->whole == 1);
  CHECK(trainer.stop_reason() == "enough");
  trainer.train_and_evaluate({.epochs = 2}, {.every_epochs = 1});
  CHECK(stopping->whole == 3);
  CHECK(stopping->evaluated == 11 + 18);
}

TEST_CASE("EagerTrainer: an evaluation that was stopped is not begun again before training goes on") {
  Setup setup;
  ListStream data(std::vector<Batch>(3, random_batch(4, 1)));
  ListStream held_out(std::vector<Batch>(4, random_batch(3, 5)));
  EagerTrainer<Batch> trainer(setup.model, setup.sgd(), data, setup.losses());
  trainer.set_evaluation(held_out);
  struct Stopping : Hook {
    void after_step(const StepReport& report) override {
      if (!report.training && ++evaluated == 2) trainer().stop("enough");
    }
    void before_evaluation() override { ++begun; }
    int evaluated = 0;
    int begun = 0;
  };
  const auto stopping = std::make_shared<Stopping>();
  trainer.register_hook(stopping);
  trainer.train_and_evaluate({.steps = 3}, {.every_steps = 1});
  CHECK(trainer.iteration() == 1);
  CHECK(stopping->evaluated == 2);
  CHECK(stopping->begun == 1);
  CHECK(trainer.storage().find("evaluation/loss") == nullptr);
  trainer.train_and_evaluate({.steps = 3}, {.every_steps = 1});
  CHECK(stopping->begun == 4);
  CHECK(stopping->evaluated == 2 + 3 * 4);
}

TEST_CASE("EagerTrainer: evaluates on data of its own, by weight, and leaves the parameters alone") {
  Setup setup;
  ListStream data({random_batch(4, 1)});
  ListStream held_out({random_batch(3, 5), random_batch(1, 6)});
  EagerTrainer<Batch> trainer(setup.model, setup.sgd(), data, setup.losses());
  trainer.set_evaluation(held_out);
  const auto before = setup.weights();
  const double mean = trainer.evaluate().at("loss");
  setup.model.eval();
  const double a = setup.losses()(random_batch(3, 5))[0].second.item<double>();
  const double b = setup.losses()(random_batch(1, 6))[0].second.item<double>();
  CHECK(mean == doctest::Approx((3 * a + b) / 4));
  CHECK(setup.weights() == before);
  CHECK(trainer.storage().latest("evaluation/loss")->value == mean);
}

TEST_CASE("EagerTrainer: a step whose gradients overflow is left out and lowers the scale") {
  Setup setup;
  ListStream data({random_batch(4, 1)});
  GradientScaler scaler({.initial_scale = 1e38});
  EagerTrainer<Batch> trainer(setup.model, setup.sgd(), data,
                              [&](const Batch& b) -> Losses {
                                return {{"loss", 1e6 * mse_loss(setup.model.forward(b.inputs), b.targets)}};
                              },
                              {.autocast = DType::bf16, .scaler = &scaler});
  const auto before = setup.weights();
  trainer.train({.steps = 1});
  CHECK(setup.weights() == before);
  CHECK(scaler.scale() == 5e37);
}

TEST_SUITE_BEGIN("cpu");  // groups of devices: each kind has an engine of its own

TEST_CASE("EagerTrainer: devices with uneven batches train as one device, and average what they report") {
  const auto devices = test_devices(2);
  // Accumulation 2, a tail, and a step in which the second device has no example.
  const std::vector<std::int64_t> sizes[] = {{3, 2, 1, 4, 2}, {1, 4, 2, 0, 1}};
  const std::int64_t steps = 5;
  Setup whole;
  std::vector<Batch> all;
  for (std::size_t i = 0; i < static_cast<std::size_t>(steps); ++i) {
    std::vector<Batch> parts;
    parts.push_back(random_batch(sizes[0][i], 10 + i));
    if (sizes[1][i] > 0) parts.push_back(random_batch(sizes[1][i], 20 + i));
    all.push_back(joined(parts));
  }
  ListStream large(all);
  EagerTrainer<Batch> reference(whole.model, whole.sgd(), large, whole.losses(), {.accumulation = 2});
  reference.train({.epochs = 2});

  GradientSync sync(devices);
  Setup start;
  auto replicas = sync.replicate(start.model);
  std::vector<double> reported(2);
  testing::run_devices(2, [&](std::size_t d) {
    std::vector<Batch> own;
    for (std::size_t i = 0; i < static_cast<std::size_t>(steps); ++i)
      own.push_back(random_batch(sizes[d][i], (d == 0 ? 10 : 20) + i, devices[d]));
    ListStream data(own);
    Sgd optimizer(replicas[d].parameters(), 0.1);
    EagerTrainer<Batch> trainer(replicas[d], optimizer, data,
                                [&](const Batch& b) -> Losses {
                                  return {{"loss", mse_loss(replicas[d].forward(b.inputs), b.targets)}};
                                },
                                {.accumulation = 2, .sync = &sync, .device = devices[d]});
    trainer.train({.epochs = 2});
    reported[d] = trainer.storage().latest("total_loss")->value;
    CHECK(trainer.updates() == 6);
  });
  check_close(replicas[0].parameters()[0].to_vector<float>(), whole.weights(), 1e-5);
  CHECK(replicas[0].parameters()[0].to_vector<float>() == replicas[1].parameters()[0].to_vector<float>());
  CHECK(reported[0] == reported[1]);
  CHECK(reported[0] == doctest::Approx(reference.storage().latest("total_loss")->value).epsilon(1e-5));
}

TEST_CASE("EagerTrainer: a device whose hook fails ends the others' training, with its error") {
  const auto devices = test_devices(2);
  class Failing : public Hook {
    void after_step(const StepReport& report) override {
      if (report.global_step == 3) throw std::runtime_error("no space left for this test");
    }
  };
  GradientSync sync(devices);
  Setup start;
  auto replicas = sync.replicate(start.model);
  const auto errors = testing::errors_of_devices(2, [&](std::size_t d) {
    ListStream data({random_batch(4, d, devices[d])});
    Sgd optimizer(replicas[d].parameters(), 0.1);
    EagerTrainer<Batch> trainer(replicas[d], optimizer, data,
                                [&](const Batch& b) -> Losses {
                                  return {{"loss", mse_loss(replicas[d].forward(b.inputs), b.targets)}};
                                },
                                {.sync = &sync, .device = devices[d]});
    trainer.set_log([](std::string_view) {});
    if (d == 0) trainer.register_hook(std::make_shared<Failing>());
    trainer.train({.steps = 100});
  });
  CHECK(errors[0] == "no space left for this test");
  CHECK(errors[1].find("no space left for this test") != std::string::npos);
}

TEST_SUITE_END();
