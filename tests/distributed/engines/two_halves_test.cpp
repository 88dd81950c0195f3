// SPDX-License-Identifier: Apache-2.0
// An engine made of another engine serves a group as the other one alone does, to the bit where sums are exact.
#include <tutti/tests/distributed/engines/two_halves.h>

#include <tutti/autodiff/custom_function.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/distributed/sharded/sharded_optimizer.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/compression/compressing_group.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/word_model.h>

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

using Numbers = std::vector<double>;
using Log = std::vector<Numbers>;  // by device: all that it saw

/// Parameters of several sizes, and a buffer.
struct Sized : Module {
  explicit Sized(DType dtype = DType::f32)
      : few(Array::zeros({3}, dtype, cpu(0)), true),
        some(Array::zeros({20, 15}, dtype, cpu(0)), true),
        many(Array::zeros({9000}, dtype, cpu(0)), true) {}
  Tensor few;
  Tensor some;
  Tensor many;
  Tensor seen{Array::zeros({2}, DType::f32, cpu(0))};
  void visit(MemberVisitor& v) override {
    v.parameter("few", few);
    v.parameter("some", some);
    v.parameter("many", many);
    v.buffer("seen", seen);
  }
};

/// Integers of five bits, so that sums of few are exact in every type.
Tensor integers(const Tensor& like, int step, std::size_t d) {
  std::vector<float> values;
  auto state = static_cast<std::uint32_t>(like.size() * 131 + step * 17 + static_cast<int>(d) + 1);
  for (std::int64_t i = 0; i < like.size(); ++i) {
    state = state * 1664525U + 1013904223U;
    values.push_back(static_cast<float>(state >> 28U) - 7.0F);
  }
  return Tensor(Array::from(values, like.shape(), like.device()).cast(like.dtype()));
}

// In step 2 device 1 lacks a parameter, in step 3 all but device 0 lack another one.
Tensor loss_of(const Sized& model, int step, std::size_t d) {
  Tensor loss = sum(model.few * integers(model.few, step, d));
  if (!(step == 2 && d == 1)) loss = loss + sum(model.some * integers(model.some, step, d));
  if (!(step == 3 && d > 0)) loss = loss + sum(model.many * integers(model.many, step, d));
  return loss;
}

void note(Numbers& log, const Tensor& tensor) {
  if (!tensor.defined()) return log.push_back(-12345);
  for (const float value : tensor.to(cpu(0)).cast(DType::f32).to_vector<float>()) log.push_back(value);
}

double weight_of(int step, std::size_t d) { return step == 4 && d == 0 ? 0.0 : 1.0 + static_cast<double>(d % 3); }

void take_step(GradientSync& sync, Sized& model, Sgd& sgd, Device device, int number, std::size_t d, bool applies,
               Numbers& log) {
  sgd.zero_grad();
  Array seen = model.seen.array();
  seen.copy_from(integers(model.seen, number, d).array());
  auto step = sync.step(device, weight_of(number, d));
  step.backward(loss_of(model, number, d));
  step.join();
  if (applies) {
    for (const Tensor& parameter : {model.few, model.some, model.many}) note(log, parameter.grad());
    sgd.step();
  }
  note(log, model.seen);
}

/// One group with its engine, and what its devices did.
struct Run {
  Run(std::size_t count, const SyncOptions& options, std::unique_ptr<Communicator> engine)
      : devices(test_devices(count)), sync(devices, options, std::move(engine)), log(count) {}
  std::vector<Device> devices;
  GradientSync sync;
  Log log;
};

Log trained(Run& run, const SyncOptions& options, DType dtype = DType::f32) {
  auto replicas = run.sync.replicate(Sized(dtype));
  std::vector<std::unique_ptr<Sgd>> optimizers;
  for (std::size_t d = 0; d < replicas.size(); ++d) {
    optimizers.push_back(std::make_unique<Sgd>(replicas[d].parameters(), 0.5));
    if (options.overlap == Overlap::in_backward) run.sync.attach(run.devices[d], *optimizers[d]);
  }
  run_devices(replicas.size(), [&](std::size_t d) {
    for (int i = 0; i < 6; ++i)
      take_step(run.sync, replicas[d], *optimizers[d], run.devices[d], i, d, options.overlap != Overlap::in_backward,
                run.log[d]);
    run.sync.flush(run.devices[d]);
    for (const Tensor& parameter : replicas[d].parameters()) note(run.log[d], parameter);
  });
  return run.log;
}

/// The scenario gives the same with a plain engine, one in two halves, and one in four quarters.
template <class Scenario> void check_as_plain(std::size_t count, const SyncOptions& options, const Scenario& scenario) {
  CAPTURE(count);
  const auto log = [&](auto make) {
    const std::vector<Device> devices = test_devices(count);
    Run run(count, options, make(devices));
    return scenario(run);
  };
  const Log expected = log(plain);
  CHECK(log(halves) == expected);
  CHECK(log(halves_of_halves) == expected);
}

void check_training(const SyncOptions& options, DType dtype = DType::f32) {
  for (const std::size_t count : {1, 2, 3, 4, 5})
    check_as_plain(count, options, [&](Run& run) { return trained(run, options, dtype); });
}

Tensor failing(const Tensor& x) {
  return custom_function(
      "failing", {x}, [](std::span<const Array> inputs) { return inputs[0].copy(); },
      [](std::span<const Array>, const Array&, const Array&) -> std::vector<Array> {
        throw std::runtime_error("backward burnt");
      });
}

}  // namespace

TEST_CASE("two_halves: training gives the same, with every reduction") {
  for (const auto reduction : {GradientReduction::sum, GradientReduction::mean, GradientReduction::weighted_mean})
    check_training({.reduction = reduction, .buffers = BufferPolicy::mean});
  check_training({.bucket_bytes = 0});
}

TEST_CASE("two_halves: training gives the same, however it overlaps") {
  check_training({.overlap = Overlap::double_buffered, .buffers = BufferPolicy::synchronised});
  check_training({.overlap = Overlap::in_backward});
}

TEST_CASE("two_halves: training gives the same where absent devices keep their gradients") {
  check_training({.reduction = GradientReduction::mean, .absent = Absent::subset});
}

TEST_CASE("two_halves: training gives the same in every type and over a wire of 16 bits") {
  for (const DType dtype : {DType::f64, DType::bf16, DType::f16}) check_training({}, dtype);
  for (const GradientWire wire : {GradientWire::bf16, GradientWire::f16}) check_training({.wire = wire});
}

TEST_CASE("two_halves: with reductions switched off each device keeps its own gradients") {
  check_as_plain(4, {}, [&](Run& run) {
    run.sync.set_reductions_enabled(false);
    return trained(run, {});
  });
}

TEST_CASE("two_halves: a device that fails is named to all, and the group goes on") {
  check_as_plain(4, {}, [](Run& run) {
    auto replicas = run.sync.replicate(Sized{});
    const auto errors = errors_of_devices(4, [&](std::size_t d) {
      Sgd sgd(replicas[d].parameters(), 0.5);
      take_step(run.sync, replicas[d], sgd, run.devices[d], 0, d, true, run.log[d]);
      std::string error;
      sgd.zero_grad();
      try {
        auto step = run.sync.step(run.devices[d]);
        step.backward(loss_of(replicas[d], 1, d) + sum(d == 1 ? failing(replicas[d].few) : replicas[d].few));
      } catch (const std::exception& failure) {
        error = failure.what();
      }
      CHECK_MESSAGE(error.find("backward burnt") != std::string::npos, error);
      if (d != 1) CHECK_MESSAGE(error.find("cpu:1") != std::string::npos, error);
      run.sync.rejoin(run.devices[d], 1);
      for (int i = 1; i < 4; ++i) take_step(run.sync, replicas[d], sgd, run.devices[d], i, d, true, run.log[d]);
    });
    for (const std::string& error : errors) CHECK(error == "");
    return run.log;
  });
}

TEST_CASE("two_halves: the devices that go on after a failure are halved anew") {
  const std::vector<Device> devices = test_devices(5);
  auto engine = std::make_unique<TwoHalves>(devices, plain(devices));
  const TwoHalves& watched = *engine;
  const auto scenario = [](Run& run) {
    auto replicas = run.sync.replicate(Sized{});
    std::vector<std::unique_ptr<Sgd>> optimizers;
    for (Sized& replica : replicas) optimizers.push_back(std::make_unique<Sgd>(replica.parameters(), 0.5));
    const auto train = [&](std::size_t d, int step) {
      take_step(run.sync, replicas[d], *optimizers[d], run.devices[d], step, d, true, run.log[d]);
    };
    run_devices(5, [&](std::size_t d) { train(d, 0); });
    for (const std::size_t d : {0, 1}) run.sync.leave(run.devices[d]);  // the first half would have one device left
    run.sync.fail(run.devices[2], std::make_exception_ptr(std::runtime_error("the disk is full")));
    run_devices(3, [&](std::size_t survivor) {
      const std::size_t d = survivor + 2;
      run.sync.rejoin(run.devices[d], 1);
      for (int i = 1; i < 4; ++i) train(d, i);
    });
    return run.log;
  };
  Run as_plain(5, {}, plain(devices));
  Run in_halves(5, {}, std::move(engine));
  CHECK(scenario(in_halves) == scenario(as_plain));
  CHECK(watched.regroupings() == 1);
}

TEST_CASE("two_halves: sparse gradients give the same rows") {
  for (const Absent absent : {Absent::zero, Absent::subset})
    for (const std::size_t count : {2, 3, 4, 5}) {
      const SyncOptions options{.reduction = GradientReduction::mean, .absent = absent};
      check_as_plain(count, options, [&](Run& run) {
        auto replicas = run.sync.replicate(WordModel(true));
        run_devices(count, [&](std::size_t d) {
          Sgd sgd(replicas[d].parameters(), 0.5);
          for (int i = 0; i < 5; ++i) {
            sgd.zero_grad();
            const auto word = static_cast<std::int64_t>(d) + i;
            auto step = run.sync.step(run.devices[d]);
            // In step 2 the second half reads nothing, in step 3 nobody does.
            const bool reads = !(i == 2 && d >= (count + 1) / 2) && i != 3;
            const Tensor dense = replicas[d].dense();
            step.backward(reads ? dense + replicas[d].read({word % 10, 3, word * word % 10, 3}, 2.0) : dense);
            step.join();
            for (const std::int64_t index : indices_of(replicas[d].table()))
              run.log[d].push_back(static_cast<double>(index));
            for (const double value : rows_of(replicas[d].table())) run.log[d].push_back(value);
            sgd.step();
          }
          for (const double value : replicas[d].table().to_vector<double>()) run.log[d].push_back(value);
        });
        return run.log;
      });
    }
}

TEST_CASE("two_halves: an index that a reduction finds out of range fails the step on all devices") {
  auto result = std::make_shared<SparseResult>(SparseResult{{true, true}, {{}, {}}});
  const SyncParameter table{.name = "table", .shape = {10, 2}, .dtype = DType::f32, .sparse = true};
  const auto rows = [](std::int64_t index, Device device) {
    return SparseGradient{Array::from(std::vector<std::int64_t>{index}, {1}, device),
                          Array::full({1, 2}, 1.0, DType::f32, device),
                          {10, 2},
                          false};
  };
  TwoHalves engine(test_devices(2), plain({}));
  const auto task =
      engine.reduce_sparse({.parameter = table,
                            .contributions = {{cpu(0), 0, {rows(3, cpu(0))}}, {cpu(1), 1, {rows(12, cpu(1))}}},
                            .receivers = {cpu(0), cpu(1)},
                            .ready = {compute_stream(cpu(0)).record(), compute_stream(cpu(1)).record()},
                            .result = result});
  for (const Device device : test_devices(2))
    CHECK_THROWS_WITH_AS(task->join(device), doctest::Contains("cpu:1 submitted parameter \"table\" with index 12"),
                         SyncError);
  CHECK(task->finished());
  CHECK(result->gradients[0].empty());
}

// To the bit, though nothing is an integer: the halves of three devices are nodes of the tree of all.
TEST_CASE("two_halves: compressed reductions give the same, and keep the same") {
  const auto floats = [](bool in_halves) {
    const std::vector<Device> devices = test_devices(kGroupDevices);
    CompressingGroup group({.rank = 2, .minimum_rate = 0}, {}, in_halves ? halves(devices) : plain(devices));
    std::vector<Floats> got(kGroupDevices);
    group.run(
        4,
        [](int step, std::size_t d) {
          return Part{1.0 + static_cast<double>(d), step != 1 || d != 0, true};
        },
        [&](int, std::size_t d) {
          for (const Tensor& parameter : group.replicas[d].parameters()) {
            const Floats gradient = floats_of(parameter.grad());
            got[d].insert(got[d].end(), gradient.begin(), gradient.end());
          }
        });
    for (std::size_t d = 0; d < kGroupDevices; ++d) got.push_back(group.kept("wide", d));
    return got;
  };
  CHECK(floats(true) == floats(false));
}

TEST_CASE("two_halves: users' collectives give the same") {
  for (const std::size_t count : {2, 3, 5})
    check_as_plain(count, {}, [&](Run& run) {
      run_devices(count, [&](std::size_t d) {
        const auto number = [&](DType dtype, const Shape& shape) {
          Tensor x(Array::zeros(shape, dtype, run.devices[d]));
          return integers(x, 1, d);
        };
        const auto see = [&](PendingTensor pending) { note(run.log[d], pending.resolve()); };
        const Device device = run.devices[d];
        for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64, DType::bf16}) {
          for (const auto operation : {CollectiveOperation::sum, CollectiveOperation::mean, CollectiveOperation::max,
                                       CollectiveOperation::min}) {
            if (operation == CollectiveOperation::mean && !is_floating(dtype)) continue;
            see(run.sync.all_reduce(device, number(dtype, {4000}), operation));
            see(run.sync.reduce_scatter(device, number(dtype, {11, 3}), operation));
          }
          see(run.sync.all_gather(device, number(dtype, {static_cast<std::int64_t>(d) + 1, 2})));
          see(run.sync.all_to_all(device, number(dtype, {9, 2})));
          see(run.sync.broadcast(device, number(dtype, {7}), run.devices.back()));
        }
        const Tensor x(number(DType::f32, {5}).array(), true);
        backward(sum(run.sync.broadcast(device, x, run.devices[0]).resolve() * number(DType::f32, {5})));
        note(run.log[d], x.grad());
        run.sync.barrier(device);
      });
      return run.log;
    });
}

TEST_CASE("two_halves: sharded optimizers give the same") {
  for (const Sharding sharding : {Sharding::optimizer_state, Sharding::gradients}) {
    const SyncOptions options{.reduction = GradientReduction::mean, .sharding = sharding};
    check_as_plain(4, options, [&](Run& run) {
      auto replicas = run.sync.replicate(Sized{});
      run_devices(4, [&](std::size_t d) {
        ShardedOptimizer sgd(run.sync, run.devices[d], [](std::vector<Tensor> pieces) -> std::unique_ptr<Optimizer> {
          return std::make_unique<Sgd>(std::move(pieces), 0.5);
        });
        for (int i = 0; i < 5; ++i) {
          sgd.zero_grad();
          auto step = run.sync.step(run.devices[d]);
          step.backward(loss_of(replicas[d], i, d));
          sgd.step();
        }
        for (const Tensor& parameter : replicas[d].parameters()) note(run.log[d], parameter);
      });
      return run.log;
    });
  }
}

TEST_CASE("two_halves: a task is joined without its engine, and several at once") {
  std::vector<Array> gradients;
  std::vector<std::shared_ptr<CollectiveTask>> tasks;
  {
    const auto engine = halves(test_devices(3));
    for (std::size_t i = 0; i < 12; ++i) {
      AllReduceRequest request{.slices = {}, .ready = {}};
      for (const Device device : test_devices(3)) {
        request.slices.push_back(
            {gradients.emplace_back(Array::full({5000}, static_cast<double>(i), DType::f32, device))});
        request.ready.push_back(compute_stream(device).record());
      }
      tasks.push_back(engine->all_reduce(std::move(request)));
    }
    run_devices(3, [&](std::size_t d) { join_tasks(cpu(d), {&tasks[6], 3}); });
  }
  run_devices(3, [&](std::size_t d) { join_tasks(cpu(d), tasks); });
  for (std::size_t i = 0; i < gradients.size(); ++i)
    CHECK(gradients[i].to_vector<float>() == std::vector<float>(5000, static_cast<float>(3 * (i / 3))));
  for (const auto& task : tasks) CHECK((task->finished() && !task->error() && task->busy().count() > 0));
}

TEST_SUITE_END();
