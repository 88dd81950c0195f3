// SPDX-License-Identifier: Apache-2.0
// What is found to differ between the replicas of several processes, which here are threads of one.
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/sync_server.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/normalization.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/processes/process_threads.h>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

Device device(std::size_t number) { return cpu(static_cast<std::uint16_t>(number)); }

struct Model : Module {
  explicit Model(Generator random, std::int64_t width = 7) : hidden(5, width, random), output(width, 3, random) {}
  Tensor forward(const Tensor& x) const { return output.forward(tanh(hidden.forward(x))); }
  void visit(MemberVisitor& v) override {
    v.module("hidden", hidden);
    v.module("output", output);
  }
  Linear hidden;
  Linear output;
};

void train_step(GradientSync& sync, Model& model, Optimizer& optimizer, std::size_t number, int i) {
  Generator random(23, static_cast<std::uint64_t>(i) * 8 + number);
  optimizer.zero_grad();
  auto step = sync.step(device(number));
  step.backward(mean(square(model.forward(Tensor(random.normal({3, 5}, DType::f32, device(number)))))));
  optimizer.step();
}

/// A value that no training gives, at one place of a parameter of one device.
void spoil(const Tensor& parameter) {
  Array array = parameter.array();
  synchronize(array.device());
  array.raw_data()[0] ^= std::byte{1};
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Each rank trains some steps of this model, made by `make(rank)`.
std::vector<std::string> errors_of_models(const std::function<Model(std::size_t)>& make,
                                          const SyncOptions& options = {}, const SyncOptions& options_of_rank_1 = {}) {
  ProcessThreads group({1, 1});
  return errors_of_devices(2, [&](std::size_t rank) {
    GradientSync sync(group.devices_of(rank), rank == 1 ? options_of_rank_1 : options, group.engine(rank),
                      std::move(group.links[rank]));
    auto replicas = sync.replicate(make(rank));
    Sgd optimizer(replicas[0].parameters(), 0.05);
    train_step(sync, replicas[0], optimizer, rank, 0);
  });
}

}  // namespace

TEST_CASE("several_processes, checks: other parameters, on every process at the first step, by name") {
  for (const std::string& error :
       errors_of_models([](std::size_t rank) { return Model(Generator(1), rank == 1 ? 8 : 7); })) {
    CAPTURE(error);
    CHECK(contains(error, "replicas or options are not those of rank"));
    CHECK(contains(error,
                   "rank 1 has parameter \"hidden.weight\" [8, 5] f32 where rank 0 has parameter "
                   "\"hidden.weight\" [7, 5] f32"));
  }
}

TEST_CASE("several_processes, checks: nobody can leave reductions out that others wait for") {
  ProcessThreads group({1, 1});
  const auto errors = group.run({}, [](std::size_t, GradientSync& sync) { sync.set_reductions_enabled(false); });
  for (const std::string& error : errors) CHECK(contains(error, "several processes cannot switch its reductions"));
}

TEST_CASE("several_processes, checks: other first values, by the parameter's name and both digests") {
  const auto errors = errors_of_models([](std::size_t rank) {
    Model model(Generator(1));
    if (rank == 1) spoil(model.output.bias);
    return model;
  });
  CHECK(contains(errors[0], "; rank 1 is on node1 (pid 4711)"));
  CHECK(contains(errors[1], "; rank 0 is on node0 (pid 4711)"));
  for (const std::string& error : errors) {
    CAPTURE(error);
    CHECK(contains(error, "replicas begin with other values than those of rank"));
    CHECK(contains(error, "the first value of parameter \"output.bias\" is not the same on rank 1 (digest "));
    CHECK(contains(error, ") as on rank 0 (digest "));
  }
}

TEST_CASE("several_processes, checks: other options, by their values") {
  SyncOptions other;
  other.bucket_bytes = 4096;
  for (const std::string& error : errors_of_models([](std::size_t) { return Model(Generator(1)); }, {}, other)) {
    CAPTURE(error);
    CHECK(contains(error, "rank 1 has SyncOptions of "));
    CHECK(contains(error, "bucket_bytes 4096"));
    CHECK(contains(error, "bucket_bytes 65536"));
  }
}

TEST_CASE("several_processes, checks: options are told by their names") {
  SyncOptions other;
  other.reduction = GradientReduction::mean;
  other.absent = Absent::subset;
  other.buffers = BufferPolicy::synchronised;
  for (const std::string& error : errors_of_models([](std::size_t) { return Model(Generator(1)); }, {}, other)) {
    CAPTURE(error);
    CHECK(contains(error, "reduction mean, absent subset, buffers synchronised, wire native"));
    CHECK(contains(error, "reduction weighted_mean, absent zero, buffers main, wire native"));
  }
}

TEST_CASE("several_processes, checks: other options of a process that has left at once, and other checks") {
  SyncOptions other;
  other.bucket_bytes = 4096;
  ProcessThreads group({1, 1});
  const auto errors = errors_of_devices(2, [&](std::size_t rank) {
    GradientSync sync(group.devices_of(rank), rank == 1 ? other : SyncOptions{}, group.engine(rank),
                      std::move(group.links[rank]));
    auto replicas = sync.replicate(Model(Generator(1)));
    if (rank == 1) return sync.leave(device(1));
    Sgd optimizer(replicas[0].parameters(), 0.05);
    train_step(sync, replicas[0], optimizer, rank, 0);
  });
  CAPTURE(errors[0]);
  CHECK(contains(errors[0], "rank 1's replicas or options are not those of rank 0"));
  SyncOptions checked;
  checked.consistency_every = 1;
  for (const std::string& error : errors_of_models([](std::size_t) { return Model(Generator(1)); }, {}, checked)) {
    CAPTURE(error);
    CHECK(contains(error, "SyncOptions::consistency_every differs"));
  }
}

TEST_CASE("several_processes, checks: consistency is found, also where some have left, and a difference is named") {
  for (const bool differs : {false, true}) {
    ProcessThreads group({2, 1, 1});
    const auto errors = group.run({.consistency_every = 2}, [&](std::size_t rank, GradientSync& sync) {
      auto replicas = sync.replicate(Model(Generator(1)));
      run_devices(replicas.size(), [&](std::size_t place) {
        const std::size_t number = group.first_of(rank) + place;
        Sgd optimizer(replicas[place].parameters(), 0.05, {.momentum = 0.9});
        for (int i = 0; i < 9; ++i) {
          if (rank == 2 && i == 4) break;  // all of its devices leave
          if (differs && rank == 1 && i == 5) spoil(replicas[place].output.weight);
          if (i == 3) sync.check_consistency(device(number));
          train_step(sync, replicas[place], optimizer, number, i);
        }
        if (rank != 2) sync.check_consistency(device(number));
        sync.leave(device(number));
      });
    });
    for (std::size_t rank = 0; rank < 2; ++rank) {
      CAPTURE(errors[rank]);
      if (differs)
        CHECK(contains(
            errors[rank],
            "replicas differ in generation 7: parameter \"output.weight\" is not the same on rank 1 (digest "));
      else
        CHECK(errors[rank] == "");
    }
  }
}

TEST_CASE("several_processes, checks: a process that does not come to a check is named by the deadline") {
  ProcessThreads group({1, 1});
  SyncOptions options;
  options.fail_after = std::chrono::milliseconds(400);
  options.warn = [](const std::string&) {};
  std::string error;
  group.run(options, [&](std::size_t rank, GradientSync& sync) {
    auto replicas = sync.replicate(Model(Generator(1)));
    Sgd optimizer(replicas[0].parameters(), 0.05);
    train_step(sync, replicas[0], optimizer, rank, 0);
    if (rank == 1) {
      while (!sync.server().has_failed()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return;
    }
    try {
      sync.check_consistency(device(rank));
    } catch (const SyncError& caught) {
      error = caught.what();
    }
  });
  CAPTURE(error);
  CHECK(contains(error, "before generation 2 for the replica check of rank 1"));
}

TEST_SUITE_END();
