// SPDX-License-Identifier: Apache-2.0
// Groups of several processes, which here are threads of one: each has its own server, and they share no object but the
// memory that the engine maps.
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/distributed/sync_server.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/loss.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/processes/process_threads.h>

#include <doctest/doctest.h>

#include <stdexcept>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr std::size_t kDevices = 4;

/// Two branches, of which a step may take one.
struct Model : Module {
  explicit Model(Generator random) : hidden(9, 17, random), left(17, 5, random), right(17, 5, random) {}
  Tensor forward(const Tensor& x, bool takes_left, bool takes_right) const {
    const Tensor features = tanh(hidden.forward(x));
    if (takes_left && takes_right) return left.forward(features) + right.forward(features);
    return takes_left ? left.forward(features) : right.forward(features);
  }
  void visit(MemberVisitor& v) override {
    v.module("hidden", hidden);
    v.module("left", left);
    v.module("right", right);
  }
  Linear hidden;
  Linear left;
  Linear right;
};

std::vector<float> flat(Module& model) {
  std::vector<float> values;
  for (const Tensor& parameter : model.parameters())
    for (const float value : parameter.array().to_vector<float>()) values.push_back(value);
  return values;
}

/// How a device of that number takes part in a step.
struct Part {
  std::int64_t examples = 3;
  bool takes_left = true;
  bool takes_right = true;
};
using Plan = std::function<Part(std::size_t number, int step)>;

void train_step(GradientSync& sync, Model& model, Optimizer& optimizer, std::size_t number, int i, Part part) {
  const Device device = cpu(static_cast<std::uint16_t>(number));
  Generator random(99, static_cast<std::uint64_t>(i) * kDevices + number);
  const Tensor x(random.normal({std::max<std::int64_t>(part.examples, 1), 9}, DType::f32, device));
  optimizer.zero_grad();
  auto step = sync.step(device, static_cast<double>(part.examples));
  const Tensor y = model.forward(x, part.takes_left, part.takes_right);
  step.backward(mean(y * y) * Tensor(Array::full({}, part.examples > 0 ? 1.0 : 0.0, DType::f32, device)));
  optimizer.step();
}

using ByDevice = std::vector<std::vector<float>>;

/// Trains; the parameters of each device.
ByDevice trained(const std::vector<std::uint32_t>& split, const SyncOptions& options, int steps, const Plan& plan) {
  ProcessThreads group(split);
  ByDevice parameters(kDevices);
  const auto errors = group.run(options, [&](std::size_t rank, GradientSync& sync) {
    auto replicas = sync.replicate(Model(Generator(3)));
    run_devices(replicas.size(), [&](std::size_t place) {
      const std::size_t number = group.first_of(rank) + place;
      Sgd optimizer(replicas[place].parameters(), 0.05, {.momentum = 0.9});
      for (int i = 0; i < steps; ++i) train_step(sync, replicas[place], optimizer, number, i, plan(number, i));
      parameters[number] = flat(replicas[place]);
    });
  });
  for (const std::string& error : errors) CHECK(error == "");
  return parameters;
}

/// One process with four devices, the group that everything is compared with.
ByDevice trained_alone(const SyncOptions& options, int steps, const Plan& plan) {
  GradientSync sync({cpu(0), cpu(1), cpu(2), cpu(3)}, options);
  auto replicas = sync.replicate(Model(Generator(3)));
  run_devices(kDevices, [&](std::size_t number) {
    Sgd optimizer(replicas[number].parameters(), 0.05, {.momentum = 0.9});
    for (int i = 0; i < steps; ++i) train_step(sync, replicas[number], optimizer, number, i, plan(number, i));
  });
  ByDevice parameters;
  for (Model& replica : replicas) parameters.push_back(flat(replica));
  return parameters;
}

const std::vector<std::vector<std::uint32_t>> kSplits{{2, 2}, {1, 1, 1, 1}, {1, 3}};

SyncOptions fixed_layout() {
  SyncOptions options;
  options.bucket_bytes = 400;  // several buckets
  return options;
}

}  // namespace

TEST_CASE("several_processes: one, two and four processes train to the same bits") {
  const Plan all = [](std::size_t, int) { return Part{}; };
  const auto expected = trained_alone(fixed_layout(), 20, all);
  for (const auto& split : kSplits) CHECK(trained(split, fixed_layout(), 20, all) == expected);
}

TEST_CASE("several_processes: devices with other sets, weights and without examples, in any split") {
  const Plan uneven = [](std::size_t number, int step) {
    const std::uint64_t draw = Generator(17, static_cast<std::uint64_t>(step) * kDevices + number).below(6);
    return Part{.examples = static_cast<std::int64_t>((number + static_cast<std::size_t>(step)) % 3),
                .takes_left = draw != 0,
                .takes_right = draw == 0 || draw > 2};
  };
  for (const Absent absent : {Absent::zero, Absent::subset}) {
    SyncOptions options = fixed_layout();
    options.absent = absent;
    for (const auto wire : {GradientWire::native, GradientWire::bf16}) {
      options.wire = wire;
      const auto expected = trained_alone(options, 12, uneven);
      for (const auto& split : kSplits) CHECK(trained(split, options, 12, uneven) == expected);
    }
  }
}

TEST_CASE("several_processes: devices that leave early are absent, and the others go on in every process") {
  constexpr int kSteps = 9;
  const auto last_step = [](std::size_t number) { return number == 0 ? kSteps : 3 + static_cast<int>(number); };
  const auto run = [&](GradientSync& sync, Model& replica, std::size_t number) {
    Sgd optimizer(replica.parameters(), 0.05);
    for (int i = 0; i < last_step(number); ++i) train_step(sync, replica, optimizer, number, i, {});
    sync.leave(cpu(static_cast<std::uint16_t>(number)));
  };
  std::vector<float> expected;
  {
    GradientSync sync({cpu(0), cpu(1), cpu(2), cpu(3)}, fixed_layout());
    auto replicas = sync.replicate(Model(Generator(3)));
    run_devices(kDevices, [&](std::size_t number) { run(sync, replicas[number], number); });
    expected = flat(replicas[0]);
  }
  for (const auto& split : kSplits) {
    ProcessThreads group(split);
    std::vector<float> first;
    const auto errors = group.run(fixed_layout(), [&](std::size_t rank, GradientSync& sync) {
      auto replicas = sync.replicate(Model(Generator(3)));
      run_devices(replicas.size(),
                  [&](std::size_t place) { run(sync, replicas[place], group.first_of(rank) + place); });
      if (rank == 0) first = flat(replicas[0]);
    });
    for (const std::string& error : errors) CHECK(error == "");
    CHECK(first == expected);
  }
}

TEST_CASE(
    "several_processes: a backward that fails in one process fails the step in all, naming it, and nobody steps") {
  ProcessThreads group({2, 2});
  std::vector<std::int64_t> steps(kDevices);
  const auto errors = group.run(fixed_layout(), [&](std::size_t rank, GradientSync& sync) {
    auto replicas = sync.replicate(Model(Generator(3)));
    run_devices(replicas.size(), [&](std::size_t place) {
      const std::size_t number = group.first_of(rank) + place;
      Sgd optimizer(replicas[place].parameters(), 0.05);
      for (int i = 0; i < 10; ++i) {
        if (number == 3 && i == 5) {
          auto step = sync.step(cpu(3));
          throw std::runtime_error("the disk is full");
        }
        train_step(sync, replicas[place], optimizer, number, i, {});
        ++steps[number];
      }
    });
  });
  for (const std::string& error : errors) {
    CAPTURE(error);
    CHECK((error.find("rank 1 cpu:3") != std::string::npos || error == "the disk is full"));
  }
  CHECK(errors[0].find("rank 1 cpu:3 failed in generation 6") != std::string::npos);
  CHECK(steps == std::vector<std::int64_t>(kDevices, 5));
}

TEST_CASE("several_processes: a process that does not come is named by the deadline of those who wait") {
  ProcessThreads group({1, 1});
  SyncOptions options = fixed_layout();
  options.fail_after = std::chrono::milliseconds(400);
  options.warn = [](const std::string&) {};
  std::string error;
  group.run(options, [&](std::size_t rank, GradientSync& sync) {
    auto replicas = sync.replicate(Model(Generator(3)));
    Sgd optimizer(replicas[0].parameters(), 0.05);
    train_step(sync, replicas[0], optimizer, rank, 0, {});
    if (rank == 1) {
      while (!sync.server().has_failed()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      CHECK_THROWS_WITH_AS(static_cast<void>(sync.step(cpu(1))), doctest::Contains("the step of rank 1"), SyncError);
      return;
    }
    try {
      train_step(sync, replicas[0], optimizer, rank, 1, {});
    } catch (const SyncError& caught) {
      error = caught.what();
    }
  });
  CAPTURE(error);
  CHECK(error.find("in generation 2 for the step of rank 1") != std::string::npos);
}

TEST_CASE("several_processes: a group that another process has closed fails when a step begins that it is not in") {
  ProcessThreads group({1, 1});
  std::string error;
  const auto errors = group.run(fixed_layout(), [&](std::size_t rank, GradientSync& sync) {
    auto replicas = sync.replicate(Model(Generator(3)));
    Sgd optimizer(replicas[0].parameters(), 0.05);
    for (int i = 0; i < 4; ++i) train_step(sync, replicas[0], optimizer, rank, i, {});
    if (rank == 1) return;
    try {
      train_step(sync, replicas[0], optimizer, rank, 4, {});
    } catch (const SyncError& caught) {
      error = caught.what();
    }
  });
  for (const std::string& each : errors) CHECK(each == "");
  CAPTURE(error);
  CHECK(error.find("rank 1 has closed its group after generation 4, this process is in 5") != std::string::npos);
}

TEST_CASE(
    "several_processes: a device that leaves after another process has closed its group is told, and nobody waits") {
  ProcessThreads group({1, 1});
  const auto errors = group.run(fixed_layout(), [&](std::size_t rank, GradientSync& sync) {
    auto replicas = sync.replicate(Model(Generator(3)));
    Sgd optimizer(replicas[0].parameters(), 0.05);
    for (int i = 0; i < 4; ++i) train_step(sync, replicas[0], optimizer, rank, i, {});
    if (rank == 1) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    sync.leave(cpu(0));
  });
  for (const std::string& error : errors) CHECK(error == "");
}

TEST_CASE("several_processes: one that an exception unwinds between steps has failed, for the others") {
  ProcessThreads group({1, 1});
  std::string error;
  group.run(fixed_layout(), [&](std::size_t rank, GradientSync& sync) {
    auto replicas = sync.replicate(Model(Generator(3)));
    Sgd optimizer(replicas[0].parameters(), 0.05);
    for (int i = 0; i < 4; ++i) train_step(sync, replicas[0], optimizer, rank, i, {});
    if (rank == 1) throw std::runtime_error("no more data");
    try {
      train_step(sync, replicas[0], optimizer, rank, 4, {});
    } catch (const SyncError& caught) {
      error = caught.what();
    }
  });
  CAPTURE(error);
  CHECK(error.find("rank 1 was unwound by an exception after generation 4") != std::string::npos);
}

TEST_CASE("several_processes: what a step's body throws reaches the others with its text") {
  for (const bool by_body : {true, false}) {
    ProcessThreads group({1, 1});
    const auto errors = group.run(fixed_layout(), [&](std::size_t rank, GradientSync& sync) {
      auto replicas = sync.replicate(Model(Generator(3)));
      const Device device = cpu(static_cast<std::uint16_t>(rank));
      int calls = 0;
      const auto work = [&](Step& step) {
        if (++calls == 2 && rank == 1) throw std::out_of_range("no example 17");
        replicas[0].zero_grad();
        step.backward(mean(replicas[0].forward(Tensor(Array::full({2, 9}, 1.0, DType::f32, device)), true, true)));
        return calls;
      };
      CHECK(sync.step(device, 1.0, work) == 1);
      if (by_body) {
        sync.step(device, 1.0, work);
      } else {
        auto step = sync.step(device);
        work(step);
      }
    });
    CAPTURE(errors[0]);
    CHECK(errors[1] == "no example 17");
    CHECK(errors[0].find(by_body ? "rank 1 cpu:1 failed in generation 2: no example 17"
                                 : "rank 1 cpu:1 failed in generation 2: its step was unwound by an exception") !=
          std::string::npos);
  }
}

TEST_CASE("several_processes: a weight that the sum cannot hold is blamed on the device that has it") {
  ProcessThreads group({1, 1});
  std::vector<std::string> errors = group.run(fixed_layout(), [&](std::size_t rank, GradientSync& sync) {
    auto replicas = sync.replicate(Model(Generator(3)));
    const Device device = cpu(static_cast<std::uint16_t>(rank));
    auto step = sync.step(device, rank == 1 ? 1e39 : 1.0);
    step.backward(mean(replicas[0].forward(Tensor(Array::full({2, 9}, 1.0, DType::f32, device)), true, true)));
  });
  CAPTURE(errors[0]);
  CAPTURE(errors[1]);
  CHECK((errors[0].find("device 1 of the group") != std::string::npos ||
         errors[0].find("rank 1 cpu:1") != std::string::npos));
  CHECK(errors[1].find("rank 1 cpu:1 registered") != std::string::npos);
}

TEST_SUITE_END();
