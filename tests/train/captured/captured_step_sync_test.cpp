// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/captured_step.h>

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/distributed/sync_server.h>
#include <tutti/nn/activation.h>
#include <tutti/nn/dropout.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/loss.h>
#include <tutti/nn/sequential.h>
#include <tutti/optim/adamw.h>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <thread>

#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/test_devices.h>

using namespace tutti;

TEST_SUITE_BEGIN("cpu");  // other kinds of device may have no engine

namespace {

struct Batch {
  Tensor inputs;
  Tensor classes;
};

Batch batch_of(Generator& random, Device device, std::int64_t size) {
  std::vector<std::int64_t> drawn;
  for (std::int64_t i = 0; i < size; ++i) drawn.push_back(static_cast<std::int64_t>(random.below(4)));
  return {Tensor(random.normal({size, 6}, DType::f32, device)), Tensor(Array::from(drawn, {size}, device))};
}

struct Result {
  std::vector<std::vector<float>> parameters;  // of each device
  std::vector<CapturedStep::Report> reports;
};

struct Run {
  SyncOptions options = {};
  std::vector<bool> captured = {true, true};  // by device
  bool micro_batches = false;
  bool flushes = false;
};

constexpr int kSteps = 24;

std::int64_t size_of_batch(int step, std::size_t device) { return step % 5 == 4 && device == 1 ? 2 : 6; }

Result train(const Run& run) {
  const auto devices = test_devices(2);
  GradientSync sync(devices, run.options);
  Generator random(5);
  auto replicas = sync.replicate(Sequential(Linear(6, 12, random), ReLU(), Dropout(0.25, random),
                                            Linear(12, 12, random), ReLU(), Linear(12, 4, random)));
  std::vector<std::unique_ptr<AdamW>> optimizers;
  for (std::size_t d = 0; d < 2; ++d) {
    optimizers.push_back(std::make_unique<AdamW>(replicas[d].parameters(), 1e-2));
    sync.attach(devices[d], *optimizers.back());
  }
  Result result{{{}, {}}, {{}, {}}};
  const auto drive = [&](std::size_t d) {
    Sequential& model = replicas[d];
    Generator data(100 + d);
    CapturedStep captured(model, [&](std::span<const Tensor> batch) {
      return std::vector{cross_entropy(model.forward(batch[0]), batch[1])};
    });
    const auto backward_of = [&](const Batch& batch, Step* step) {
      if (run.captured[d])
        return void(step != nullptr ? captured({batch.inputs, batch.classes}, *step)
                                    : captured({batch.inputs, batch.classes}));
      const Tensor loss = cross_entropy(model.forward(batch.inputs), batch.classes);
      if (step != nullptr)
        step->backward(loss);
      else
        backward(loss);
    };
    for (int i = 0; i < kSteps; ++i) {
      const std::int64_t size = size_of_batch(i, d);
      auto step = sync.step(devices[d], static_cast<double>(size));
      if (run.micro_batches)
        for (int m = 0; m < 2; ++m) {
          const auto local = step.no_sync(4);
          backward_of(batch_of(data, devices[d], 4), nullptr);
        }
      backward_of(batch_of(data, devices[d], size), &step);
      if (run.options.overlap != Overlap::in_backward) optimizers[d]->step();
      optimizers[d]->zero_grad();
    }
    if (run.options.overlap == Overlap::double_buffered && sync.flush(devices[d])) optimizers[d]->step();
    for (const Tensor& parameter : model.parameters()) {
      const auto values = parameter.to_vector<float>();
      result.parameters[d].insert(result.parameters[d].end(), values.begin(), values.end());
    }
    result.reports[d] = captured.report();
  };
  // A step that is unwound reports to the other device, which ends too.
  std::string errors[2];
  const auto drive_noting = [&](std::size_t d) {
    try {
      drive(d);
    } catch (const std::exception& error) {
      errors[d] = error.what();
    }
  };
  std::thread other(drive_noting, 1);
  drive_noting(0);
  other.join();
  CHECK(errors[0] == "");
  CHECK(errors[1] == "");
  return result;
}

void check_same(Run run) {
  const Result captured = train(run);
  CHECK(captured.parameters[0] == captured.parameters[1]);
  for (std::size_t d = 0; d < 2; ++d)
    if (run.captured[d]) CHECK(captured.reports[d].replayed >= 6);
  run.captured = {false, false};
  CHECK(train(run).parameters == captured.parameters);
}

}  // namespace

TEST_CASE("captured step, synchronised: trains as it does eagerly") { check_same({}); }
TEST_CASE("captured step, synchronised: weights of uneven batches") {
  check_same({.options = {.reduction = GradientReduction::weighted_mean}});
}
TEST_CASE("captured step, synchronised: a bucket for each parameter") { check_same({.options = {.bucket_bytes = 1}}); }
TEST_CASE("captured step, synchronised: one device eager, one captured") { check_same({.captured = {true, false}}); }
TEST_CASE("captured step, synchronised: micro-batches without synchronisation first") {
  check_same({.options = {.reduction = GradientReduction::weighted_mean}, .micro_batches = true});
}
TEST_CASE("captured step, synchronised: gradients of the step before") {
  check_same({.options = {.overlap = Overlap::double_buffered}});
}
TEST_CASE("captured step, synchronised: parameters updated during backward") {
  check_same({.options = {.overlap = Overlap::in_backward}});
}

TEST_CASE("captured step, synchronised: a gradient that the user holds makes it captured anew") {
  const auto devices = test_devices(2);
  GradientSync sync({devices[0]});
  Generator random(5);
  auto replicas = sync.replicate(Linear(3, 2, random));
  Linear& model = replicas.front();
  CapturedStep captured(model,
                        [&](std::span<const Tensor> batch) { return std::vector{model.forward(batch[0]).sum()}; });
  const Tensor x(Array::full({2, 3}, 1, DType::f32, devices[0]));
  const auto take = [&] {
    model.zero_grad();
    auto step = sync.step(devices[0]);
    captured({x}, step);
  };
  for (int i = 0; i < 12; ++i) take();
  const auto before = captured.report();
  REQUIRE(before.replayed > 0);
  const Tensor held = model.weight.grad();  // the group takes another arena
  const auto values = held.to_vector<float>();
  take();
  CHECK(captured.report().captured == before.captured + 1);
  CHECK(captured.report().reason.find("another place") != std::string::npos);
  CHECK(held.to_vector<float>() == values);
}

namespace {

struct Reordered {
  std::vector<std::vector<float>> gradients;  // of device 0, step by step
  std::vector<std::uint32_t> layouts;         // after each part: where the first parameter lies
  std::vector<std::int64_t> captured;         // after each part, by device 0
  bool names_layout = false;                  // as a reason to capture anew
};

// Batches of two rows use one parameter first, those of three the other: gradients are final in opposite orders.
Reordered train_reordered(bool is_captured) {
  const auto devices = test_devices(2);
  GradientSync sync(devices, {.reduction = GradientReduction::mean});
  Generator random(5);
  auto replicas =
      sync.replicate(Sequential(Linear(3, 3, random, {.bias = false}), Linear(3, 3, random, {.bias = false})));
  Reordered result;
  testing::run_devices(2, [&](std::size_t d) {
    const std::vector<Tensor> weights = replicas[d].parameters();
    const auto loss_of = [&](const Tensor& x) {
      const std::size_t first = x.shape()[0] == 3 ? 1 : 0;
      return sum(matmul(matmul(x, weights[first]), weights[1 - first]));
    };
    // Of one capture: an older one may fit again where memory is used again.
    CapturedStep captured(replicas[d], [&](std::span<const Tensor> batch) { return std::vector{loss_of(batch[0])}; },
                          {.most_captures = 1, .check_every = 0});
    const auto take = [&](std::int64_t rows, int steps) {
      for (int i = 0; i < steps; ++i) {
        replicas[d].zero_grad();
        const Tensor x(Array::full({rows, 3}, 1.0 + static_cast<double>(d) + 0.1 * i, DType::f32, devices[d]));
        auto step = sync.step(devices[d]);
        if (is_captured)
          captured({x}, step);
        else
          step.backward(loss_of(x));
        if (d == 0)
          for (const Tensor& weight : weights) result.gradients.push_back(weight.grad().to_vector<float>());
        if (d == 0 && captured.report().reason.find("another place: their layout changed") != std::string::npos)
          result.names_layout = true;
      }
    };
    const auto note = [&] {
      if (d == 0) result.layouts.push_back(sync.server().layout()->position_of({0}));
      if (d == 0) result.captured.push_back(captured.report().captured);
    };
    take(2, 8);
    note();
    take(3, 8);  // captured anew, and once more when the layout follows, in its midst
    note();
    take(2, 8);  // the same
    note();
  });
  return result;
}

}  // namespace

TEST_CASE("captured step, synchronised: another layout is captured anew") {
  const Reordered captured = train_reordered(true);
  REQUIRE(captured.layouts.size() == 3);
  CHECK(captured.layouts[0] != captured.layouts[1]);
  CHECK(captured.layouts[0] == captured.layouts[2]);
  CHECK(captured.names_layout);
  // Each time twice, to see that it does the same.
  CHECK(captured.captured == std::vector<std::int64_t>{2, 6, 10});
  CHECK(train_reordered(false).gradients == captured.gradients);
}

// A step begins before the one before it has told of another order; its replay writes to the places that it found.
TEST_CASE("captured step, synchronised: with double buffering another order moves nothing under a replay") {
  const auto train_in_turn = [](bool is_captured) {
    const auto devices = test_devices(2);
    GradientSync sync(devices, {.overlap = Overlap::double_buffered});
    Generator random(5);
    auto replicas =
        sync.replicate(Sequential(Linear(3, 3, random, {.bias = false}), Linear(3, 3, random, {.bias = false})));
    std::vector<std::vector<float>> gradients;
    std::vector<std::int64_t> replayed(2);
    std::atomic<bool> begun = false;
    testing::run_devices(2, [&](std::size_t d) {
      const std::vector<Tensor> weights = replicas[d].parameters();
      CapturedStep captured(replicas[d],
                            [&](std::span<const Tensor> batch) {
                              const std::size_t first = batch[0].shape()[0] == 3 ? 1 : 0;
                              return std::vector{sum(matmul(matmul(batch[0], weights[first]), weights[1 - first]))};
                            },
                            {.most_captures = 8, .check_every = 0});
      // Three steps in a row in the other order, then one in the order that was replayed before.
      for (int i = 0; i < 40; ++i) {
        const std::int64_t rows = i >= 12 && i % 4 != 3 ? 3 : 2;
        replicas[d].zero_grad();
        const Tensor x(Array::full({rows, 3}, 1.0 + static_cast<double>(d) + 0.1 * i, DType::f32, devices[d]));
        // The other device finds its capture of step 15 before this one ends step 14, from which the order is learned.
        if (d == 1 && i == 14) {
          begun.wait(false);
          std::this_thread::sleep_for(std::chrono::milliseconds(30));
        }
        auto step = sync.step(devices[d]);
        if (d == 0 && i == 15) {
          begun = true;
          begun.notify_one();
        }
        if (is_captured) {
          captured({x}, step);
        } else {
          const std::size_t first = rows == 3 ? 1 : 0;
          step.backward(sum(matmul(matmul(x, weights[first]), weights[1 - first])));
        }
        if (d == 0 && i > 0)
          for (const Tensor& weight : weights) gradients.push_back(weight.grad().to_vector<float>());
      }
      sync.flush(devices[d]);
      replayed[d] = captured.report().replayed;
    });
    if (is_captured)
      for (const std::int64_t count : replayed) CHECK(count > 20);
    return gradients;
  };
  const auto captured = train_in_turn(true);
  CHECK(captured.size() == 78);
  CHECK(captured == train_in_turn(false));
}

TEST_CASE("captured step, synchronised: a failure on one device reaches the other with its cause") {
  const auto devices = test_devices(2);
  GradientSync sync(devices);
  Generator random(5);
  auto replicas = sync.replicate(Linear(3, 2, random));
  std::string errors[2];
  const auto drive = [&](std::size_t d) {
    Linear& model = replicas[d];
    Tensor index(Array::from(std::vector<std::int64_t>{0, 1}, {2, 1}, devices[d]));
    const Tensor x(Array::full({2, 3}, 1, DType::f32, devices[d]));
    CapturedStep captured(model, [&](std::span<const Tensor> batch) {
      return std::vector{gather(model.forward(batch[0]), 1, batch[1]).sum()};
    });
    try {
      for (int i = 0; i < 12; ++i) {
        if (i == 8 && d == 1) index = Tensor(Array::from(std::vector<std::int64_t>{0, 7}, {2, 1}, devices[d]));
        model.zero_grad();
        auto step = sync.step(devices[d]);
        captured({x, index}, step);
        synchronize(devices[d]);
      }
    } catch (const Error& error) {
      errors[d] = error.what();
      if (d == 1) sync.fail(devices[1], std::current_exception());
    }
  };
  std::thread other(drive, 1);
  drive(0);
  other.join();
  for (const Device device : devices) try {
      synchronize(device);
    } catch (const Error&) {  // the same; a stream tells until it was synchronised
    }
  for (const std::string& error : errors) {
    INFO(error);
    CHECK(error.find("[gather] index 7 at [1, 0] is out of range") != std::string::npos);
  }
}

TEST_SUITE_END();
