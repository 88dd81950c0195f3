// SPDX-License-Identifier: Apache-2.0
// Sharded optimizers in groups of several processes, which here are threads of one: shares are those of all processes'
// devices, whatever process has them.
#include <tutti/backend/error.h>
#include <tutti/distributed/sync_server.h>
#include <tutti/tests/distributed/processes/process_threads.h>
#include <tutti/tests/distributed/sharded/sharded_training.h>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <stdexcept>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr std::size_t kDevices = 4;
constexpr Sharding kShardings[] = {Sharding::optimizer_state, Sharding::gradients};
const std::vector<std::vector<std::uint32_t>> kSplits{{2, 2}, {1, 1, 1, 1}, {1, 3}};

SyncOptions options_for(Sharding sharding) {
  SyncOptions options;
  options.sharding = sharding;
  options.bucket_bytes = 256;  // several buckets, several laps
  return options;
}

/// One device of a training, as its thread drives it.
struct Part {
  GradientSync& sync;
  Branching& replica;
  ShardedOptimizer& optimizer;
  std::size_t number;

  Device device() const { return cpu(static_cast<std::uint16_t>(number)); }
  void backward(int step) const {
    optimizer.zero_grad();
    auto scope = sync.step(device(), Branching::weight(step, device()));
    scope.backward(replica.loss(step, device()));
  }
  void train(int first, int last) const {
    for (int step = first; step < last; ++step) {
      backward(step);
      optimizer.step();
    }
  }
};
using Work = std::function<void(const Part&)>;

/// Runs the work on four devices in such processes; what each device's threw, by its number.
std::vector<std::string> run(const std::vector<std::uint32_t>& split, const SyncOptions& options,
                             const ShardedOptimizer::Factory& factory, const Work& work, const Branching& model = {},
                             bool connects = false) {
  ProcessThreads group(split, connects);
  std::vector<std::string> errors(kDevices);
  const auto of_ranks = group.run(options, [&](std::size_t rank, GradientSync& sync) {
    auto replicas = sync.replicate(model);
    std::vector<std::unique_ptr<ShardedOptimizer>> optimizers;
    for (const Device device : sync.devices())
      optimizers.push_back(std::make_unique<ShardedOptimizer>(sync, device, factory));
    const auto of_devices = errors_of_devices(replicas.size(), [&](std::size_t place) {
      work({sync, replicas[place], *optimizers[place], group.first_of(rank) + place});
    });
    std::ranges::copy(of_devices, errors.begin() + static_cast<std::ptrdiff_t>(group.first_of(rank)));
  });
  for (const std::string& error : of_ranks) CHECK(error == "");
  return errors;
}
void run_well(const std::vector<std::uint32_t>& split, const SyncOptions& options,
              const ShardedOptimizer::Factory& factory, const Work& work, const Branching& model = {}) {
  for (const std::string& error : run(split, options, factory, work, model)) CHECK(error == "");
}

}  // namespace

TEST_CASE("several_processes, sharded: parameters and state of the unsharded optimizer of one process, in any split") {
  for (const auto& factory : {sgd(), adamw()}) {
    BranchingTraining expected(kDevices, Sharding::none, factory);
    expected.run(0, 24);
    const auto state = expected.state();
    for (const Sharding sharding : kShardings)
      for (const auto& split : kSplits) {
        CAPTURE(static_cast<int>(sharding));
        CAPTURE(split.size());
        std::vector<std::vector<float>> values(kDevices);
        std::vector<Optimizer::State> states(kDevices);
        run_well(split, options_for(sharding), factory, [&](const Part& part) {
          part.train(0, 24);
          part.sync.leave(part.device());
          states[part.number] = part.optimizer.state();
          values[part.number] = values_of(part.replica);
        });
        for (std::size_t d = 0; d < kDevices; ++d) {
          CHECK(values[d] == values_of(expected.replicas[0]));
          CHECK(difference(states[d], state) == "");
        }
      }
  }
}

TEST_CASE("several_processes, sharded: over connections, too") {
  BranchingTraining expected(kDevices, Sharding::none, adamw());
  expected.run(0, 12);
  const auto state = expected.state();
  for (const Sharding sharding : kShardings)
    for (const auto& split : kSplits) {
      const auto errors = run(
          split, options_for(sharding), adamw(),
          [&](const Part& part) {
            part.train(0, 12);
            CHECK(difference(part.optimizer.state(), state) == "");
            CHECK(values_of(part.replica) == values_of(expected.replicas[0]));
          },
          {}, true);
      for (const std::string& error : errors) CHECK(error == "");
    }
}

namespace {

/// A parameter of several pieces of the engines, one of fewer elements than devices, and an empty one.
struct Uneven : Module {
  Tensor large = Branching::filled({211, 419}, 1);
  Tensor two{Array::from(std::vector<double>{1, 2}, {2}, test_device()), true};
  Tensor none{Array::zeros({0}, DType::f64, test_device()), true};
  void visit(MemberVisitor& v) override {
    v.parameter("large", large);
    v.parameter("two", two);
    v.parameter("none", none);
  }
  std::vector<double> values() const {
    std::vector<double> all = two.to_vector<double>();
    for (const float value : large.to_vector<float>()) all.push_back(value);
    return all;
  }
};

std::vector<double> trained(GradientSync& sync, Uneven& replica, Device device) {
  ShardedOptimizer optimizer(sync, device, adamw());
  for (int i = 0; i < 3; ++i) {
    optimizer.zero_grad();
    auto step = sync.step(device);
    const double factor = 1.0 + device.index + i;
    step.backward(cast(sum(square(replica.large)), DType::f64) * factor + sum(square(replica.two)) * factor +
                  sum(replica.none));
    optimizer.step();
  }
  return replica.values();
}

}  // namespace

TEST_CASE("several_processes, sharded: parameters of many pieces, of fewer elements than devices, and of none") {
  for (const Sharding sharding : kShardings) {
    const SyncOptions options{.sharding = sharding, .bucket_bytes = 1U << 20U};
    std::vector<double> expected;
    {
      GradientSync sync({cpu(0), cpu(1), cpu(2), cpu(3)}, options);
      auto replicas = sync.replicate(Uneven{});
      run_devices(kDevices, [&](std::size_t d) {
        const auto values = trained(sync, replicas[d], sync.devices()[d]);
        if (d == 0) expected = values;
      });
    }
    for (const bool connects : {false, true})
      for (const auto& split : kSplits) {
        ProcessThreads group(split, connects);
        const auto errors = group.run(options, [&](std::size_t, GradientSync& sync) {
          auto replicas = sync.replicate(Uneven{});
          run_devices(replicas.size(),
                      [&](std::size_t d) { CHECK(trained(sync, replicas[d], sync.devices()[d]) == expected); });
        });
        for (const std::string& error : errors) CHECK(error == "");
      }
  }
}

TEST_CASE(
    "several_processes, sharded: each device keeps its own share of the state alone, and gradients are elsewhere") {
  for (const auto& split : kSplits) {
    std::vector<std::size_t> bytes(kDevices);
    std::vector<std::size_t> owned(kDevices);
    run_well(split, options_for(Sharding::gradients), adamw(), [&](const Part& part) {
      part.backward(1);
      CHECK_THROWS_AS(static_cast<void>(part.replica.left.grad()), Error);
      part.optimizer.step();
      bytes[part.number] = part.optimizer.state_bytes();
      owned[part.number] = part.optimizer.shards().bytes(static_cast<MemberIndex>(part.number));
    });
    for (std::size_t d = 0; d < kDevices; ++d) CHECK(bytes[d] == 2 * owned[d]);
  }
}

TEST_CASE("several_processes, sharded: the reductions sum and mean, wire, and checks of the replicas") {
  for (const GradientReduction reduction : {GradientReduction::sum, GradientReduction::mean})
    for (const auto wire : {GradientWire::native, GradientWire::bf16}) {
      const Sharding sharding = wire == GradientWire::native ? Sharding::gradients : Sharding::optimizer_state;
      SyncOptions options = options_for(sharding);
      options.reduction = reduction;
      options.wire = wire;
      BranchingTraining expected(kDevices, Sharding::none, sgd(), options);
      expected.run(0, 8);
      options.consistency_every = 2;
      run_well({1, 3}, options, sgd(), [&](const Part& part) {
        part.train(0, 8);
        part.sync.check_consistency(part.device());
        CHECK(values_of(part.replica) == values_of(expected.replicas[part.number]));
      });
    }
}

TEST_CASE("several_processes, sharded: the norm of all shares, and one answer to whether gradients are finite") {
  for (const Sharding sharding : kShardings) {
    BranchingTraining expected(kDevices, sharding, sgd());
    std::vector<double> norms(kDevices);
    const auto train = [](const Part& part, int step, std::size_t infinite) {
      part.optimizer.zero_grad();
      auto scope = part.sync.step(part.device());
      const double factor = part.number == infinite ? 1e39 : 1.0;
      scope.backward(part.replica.loss(step, part.device()) *
                     Tensor(Array::full({}, factor, DType::f32, part.device())));
    };
    const auto norm = [&](const Part& part) {
      train(part, 1, kDevices);
      const double value = part.optimizer.clip_grad_norm(0.01);
      part.optimizer.step();
      return value;
    };
    run_devices(kDevices, [&](std::size_t d) {
      norms[d] = norm({*expected.sync, expected.replicas[d], *expected.sharded[d], d});
    });
    for (const auto& split : kSplits)
      run_well(split, options_for(sharding), sgd(), [&](const Part& part) {
        CHECK(norm(part) == norms[0]);
        CHECK(values_of(part.replica) == values_of(expected.replicas[0]));
        train(part, 2, 3);
        CHECK_FALSE(part.optimizer.unscale_grad(2.0));
      });
  }
}

TEST_CASE("several_processes, sharded: a state goes on in another split, sharded in another way, or not at all") {
  BranchingTraining expected(kDevices, Sharding::none, adamw());
  expected.run(0, 6);
  Optimizer::State state;
  std::optional<Branching> saved;
  run_well({2, 2}, options_for(Sharding::gradients), adamw(), [&](const Part& part) {
    part.train(0, 6);
    Optimizer::State own = part.optimizer.state();  // a collective: of all devices
    if (part.number == 0) {
      state = std::move(own);
      saved = clone(part.replica, part.device());
    }
  });
  expected.run(6, 12);
  for (const Sharding sharding : kShardings)
    for (const auto& split : kSplits)
      run_well(
          split, options_for(sharding), adamw(),
          [&](const Part& part) {
            part.optimizer.load_state(state);
            part.train(6, 12);
            CHECK(values_of(part.replica) == values_of(expected.replicas[0]));
          },
          *saved);
  BranchingTraining alone(kDevices, Sharding::none, adamw(), {}, *saved);
  alone.load_state(state);
  alone.run(6, 12);
  CHECK(values_of(alone.replicas[1]) == values_of(expected.replicas[0]));
}

TEST_CASE("several_processes, sharded: a backward that fails in one process fails the step in all, and nobody steps") {
  for (const Sharding sharding : kShardings)
    for (const auto& split : kSplits) {
      std::vector<std::int64_t> steps(kDevices);
      std::vector<std::vector<float>> values(kDevices);
      const auto errors = run(split, options_for(sharding), adamw(), [&](const Part& part) {
        part.train(0, 5);
        values[part.number] = values_of(part.replica);
        steps[part.number] = part.optimizer.steps();
        try {
          part.optimizer.zero_grad();
          auto step = part.sync.step(part.device());
          Tensor loss = part.replica.loss(5, part.device());
          if (part.number == 3) throw std::runtime_error("the disk is full");
          step.backward(loss);
          part.optimizer.step();
        } catch (...) {
          CHECK(part.optimizer.steps() == 5);
          CHECK(part.optimizer.whole());
          CHECK(values_of(part.replica) == values[part.number]);
          throw;
        }
      });
      for (std::size_t d = 0; d < kDevices; ++d) {
        CAPTURE(errors[d]);
        CHECK((errors[d].find("cpu:3 failed in generation 6") != std::string::npos || errors[d] == "the disk is full"));
        CHECK(steps[d] == 5);
      }
    }
}

TEST_CASE("several_processes, sharded: one that fails after the commit leaves all that had begun between two steps") {
  for (const Sharding sharding : kShardings)
    for (const auto& split : kSplits) {
      std::atomic<int> begun{0};
      const auto errors = run(split, options_for(sharding), adamw(), [&](const Part& part) {
        part.train(0, 3);
        part.backward(3);
        if (part.number == 2) {
          while (begun < 3) std::this_thread::yield();
          part.sync.fail(part.device(), std::make_exception_ptr(std::runtime_error("no memory left")));
          CHECK(part.optimizer.whole());
          return;
        }
        part.optimizer.step_async();
        ++begun;
        try {
          part.optimizer.join();
        } catch (...) {
          CHECK_FALSE(part.optimizer.whole());
          CHECK_THROWS_AS(static_cast<void>(part.sync.step(part.device())), SyncError);
          throw;
        }
      });
      for (const std::size_t d : {0U, 1U, 3U}) {
        CAPTURE(errors[d]);
        CHECK(errors[d].find("cpu:2 failed in generation") != std::string::npos);
        CHECK(errors[d].find("no memory left") != std::string::npos);
      }
    }
}

TEST_CASE("several_processes, sharded: devices that have left own a share, so that nobody goes on without them") {
  for (const Sharding sharding : kShardings)
    for (const auto& split : kSplits) {
      const auto errors = run(split, options_for(sharding), sgd(), [&](const Part& part) {
        part.train(0, 3);
        if (part.number == 2) return part.sync.leave(part.device());
        part.train(3, 4);
      });
      for (const std::size_t d : {0U, 1U, 3U}) {
        CAPTURE(errors[d]);
        CHECK(errors[d].find("cpu:2 has left before generation 4 and owns a share") != std::string::npos);
      }
      CHECK(errors[2] == "");
    }
}

TEST_CASE("several_processes, sharded: unlike sharding is an error that names what each rank has") {
  ProcessThreads group({1, 1});
  const auto errors = errors_of_devices(2, [&](std::size_t rank) {
    GradientSync sync(group.devices_of(rank), options_for(rank == 0 ? Sharding::none : Sharding::optimizer_state),
                      group.engine(rank), std::move(group.links[rank]));
    auto replicas = sync.replicate(Branching{});
    auto step = sync.step(sync.devices()[0]);
    step.backward(replicas[0].loss(1, sync.devices()[0]));
  });
  for (const std::string& error : errors) {
    CAPTURE(error);
    CHECK(error.find("sharding none") != std::string::npos);
    CHECK(error.find("sharding optimizer_state") != std::string::npos);
  }
}

TEST_SUITE_END();
