// SPDX-License-Identifier: Apache-2.0
// SyncOptions::buffers: running statistics are the same on all replicas after every step.
#include <tutti/distributed/messages/buffer_sync.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <functional>
#include <stdexcept>

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr std::size_t kDevices = 3;

/// A parameter beside a running mean of what it was multiplied with, and a count of batches.
struct Normed : Module {
  Tensor weight{Array::from(std::vector<float>{1, 2}, {2}, test_device()), true};
  Tensor mean{Array::zeros({2}, DType::f32, test_device())};
  Tensor batches{Array::zeros({}, DType::i64, test_device())};

  Tensor forward(const Tensor& x, const std::function<Tensor(Tensor)>& across = {}) {
    const Tensor seen = across ? across(x) : x;
    write(mean, mean * 0.7 + seen.detach() * 0.3);
    write(batches, batches + Tensor(1));
    return sum(weight * x);
  }
  void visit(MemberVisitor& v) override {
    v.parameter("weight", weight);
    v.buffer("mean", mean);
    v.buffer("batches", batches);
  }
  static void write(const Tensor& buffer, const Tensor& value) {
    Array target = buffer.array();
    target.copy_from(value.array());
  }
};

struct Seen {
  std::vector<float> mean;
  std::int64_t batches = 0;
  friend bool operator==(const Seen&, const Seen&) = default;
};

Device device(std::size_t d) { return test_device(d); }
Seen seen(const Normed& replica) { return {replica.mean.to_vector<float>(), replica.batches.item<std::int64_t>()}; }
bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

Tensor data(std::size_t d, int step) {
  const auto at = static_cast<float>(step) + 0.1F;
  return Tensor(Array::from(std::vector<float>{at * static_cast<float>(d + 1), at / 3}, {2}, device(d)));
}

// As the module computes it.
float next_mean(float mean, float x) { return mean * 0.7F + x * 0.3F; }

struct Training {
  explicit Training(const SyncOptions& options)
      : sync(test_devices(kDevices), options), replicas(sync.replicate(Normed{})), history(kDevices) {
    for (Normed& replica : replicas) optimizers.push_back(std::make_unique<Sgd>(replica.parameters(), 0.1));
  }
  void step(std::size_t d, int i, double weight = 1.0) {
    optimizers[d]->zero_grad();
    auto step = sync.step(device(d), weight);
    step.backward(replicas[d].forward(data(d, i), across ? across(d) : nullptr));
    optimizers[d]->step();
    history[d].push_back(seen(replicas[d]));
  }
  void check_equal() const {
    for (std::size_t d = 1; d < kDevices; ++d) CHECK(history[d] == history[0]);
  }
  GradientSync sync;
  std::vector<Normed> replicas;
  std::vector<std::unique_ptr<Sgd>> optimizers;
  std::vector<std::vector<Seen>> history;  // by device, after each of its steps
  std::function<std::function<Tensor(Tensor)>(std::size_t)> across;
};

}  // namespace

TEST_CASE("buffer_sync: main: all replicas take the first device's after each step") {
  Training training({.buffers = BufferPolicy::main, .consistency_every = 1});
  run_devices(kDevices, [&](std::size_t d) {
    for (int i = 1; i <= 6; ++i) training.step(d, i);
  });
  training.check_equal();
  Normed alone;
  for (int i = 1; i <= 6; ++i) {
    (void)alone.forward(data(0, i));
    CHECK(training.history[0][static_cast<std::size_t>(i) - 1] == seen(alone));
  }
}

TEST_CASE("buffer_sync: mean: floating buffers become the mean, others follow the first") {
  Training training({.buffers = BufferPolicy::mean, .consistency_every = 1});
  run_devices(kDevices, [&](std::size_t d) {
    for (int i = 1; i <= 6; ++i) training.step(d, i);
  });
  training.check_equal();
  float mean = 0;
  for (int i = 1; i <= 6; ++i) {
    float sum = 0;
    for (std::size_t d = 0; d < kDevices; ++d) {
      const float own = next_mean(mean, data(d, i).to_vector<float>()[0]);
      sum = d == 0 ? own : sum + own;
    }
    mean = sum / 3;
    const Seen& after = training.history[0][static_cast<std::size_t>(i) - 1];
    CHECK(after.mean[0] == doctest::Approx(mean).epsilon(1e-6));
    CHECK(after.batches == i);
  }
}

TEST_CASE("buffer_sync: synchronised: layers keep them equal by collectives of their own") {
  Training training({.buffers = BufferPolicy::synchronised, .consistency_every = 1});
  training.across = [&](std::size_t d) {
    return [&training, d](const Tensor& x) {
      return training.sync.all_reduce(device(d), x.detach(), CollectiveOperation::mean).resolve();
    };
  };
  run_devices(kDevices, [&](std::size_t d) {
    for (int i = 1; i <= 6; ++i) training.step(d, i);
    training.sync.check_consistency(device(d));
  });
  training.check_equal();
}

TEST_CASE("buffer_sync: a replica that cheats is named with its buffer, under every policy") {
  for (const BufferPolicy policy : {BufferPolicy::main, BufferPolicy::mean, BufferPolicy::synchronised}) {
    CAPTURE(policy);
    Training training({.buffers = policy, .consistency_every = 1});
    const bool own = policy == BufferPolicy::synchronised;  // each layer keeps statistics of its own data
    const auto errors = errors_of_devices(kDevices, [&](std::size_t d) {
      for (int i = 1; i <= 3; ++i) {
        training.step(d, own ? i * static_cast<int>(d == 2 ? 2 : 1) : i);
        if (d == 2 && i == 2 && !own)
          Normed::write(training.replicas[2].mean, Tensor(Array::full({2}, 7, DType::f32, device(2))));
      }
    });
    for (const std::string& error : errors)
      CHECK_MESSAGE(
          contains(error, std::string(own ? "generation 2" : "generation 3") + as_tested(": buffer \"mean\" on cpu:0")),
          error);
  }
}

TEST_CASE("buffer_sync: a device without examples does not count, nor does one that left, which may follow") {
  for (const BufferPolicy policy : {BufferPolicy::main, BufferPolicy::mean}) {
    Training training({.buffers = policy, .consistency_every = 1});
    run_devices(kDevices, [&](std::size_t d) {
      training.step(d, 1, d == 0 ? 0.0 : 1.0);
      training.step(d, 2, 0.0);
      training.step(d, 3);
      if (d == 0) {
        training.sync.leave(device(0), Follow::yes);
        while (training.sync.follow(device(0))) {
          training.optimizers[0]->step();
          training.optimizers[0]->zero_grad();
          training.history[0].push_back(seen(training.replicas[0]));
        }
        return;
      }
      training.step(d, 4);
      training.step(d, 5);
      training.sync.leave(device(d));
    });
    training.check_equal();
    CHECK(training.history[0].size() == 5);
    const float first = policy == BufferPolicy::main ? 2 * 1.1F : 2.5F * 1.1F;  // devices 1, 2 have 2 and 3 times it
    CHECK(training.history[0][0].mean[0] == doctest::Approx(0.3F * first));
    if (policy == BufferPolicy::main) {  // nobody had examples: all count, and device 0 is the first of them
      const float own = next_mean(0.3F * first, 2.1F);
      CHECK(training.history[0][1].mean[0] == doctest::Approx(own));
      CHECK(training.history[0][2].mean[0] == doctest::Approx(next_mean(own, 3.1F)));
    }
  }
}

TEST_CASE("buffer_sync: after a failure all replicas take those of the one ahead") {
  Training training({.buffers = BufferPolicy::main, .consistency_every = 1});
  const auto errors = errors_of_devices(kDevices, [&](std::size_t d) {
    for (int i = 1; i <= 2; ++i) training.step(d, i);
    auto step = training.sync.step(device(d));
    const Tensor loss = training.replicas[d].forward(data(d, 3));  // writes what nobody will see
    training.sync.barrier(device(d));
    if (d == 1) throw std::runtime_error("burnt");
    step.backward(loss);
  });
  for (const std::string& error : errors) CHECK_FALSE(error.empty());
  CHECK(seen(training.replicas[1]) != seen(training.replicas[2]));
  run_devices(kDevices, [&](std::size_t d) {
    training.sync.rejoin(device(d), 2);
    training.history[d].push_back(seen(training.replicas[d]));
    for (int i = 3; i <= 5; ++i) training.step(d, i);
  });
  training.check_equal();
}

TEST_CASE("buffer_sync: a device without a replica cannot follow a group that has buffers only") {
  struct Counter : Module {
    Tensor batches{Array::zeros({}, DType::i64, test_device())};
    void visit(MemberVisitor& v) override { v.buffer("batches", batches); }
  };
  GradientSync sync(test_devices(2));
  Counter counter;
  counter.detach_members_to(test_device(1));
  sync.attach(test_device(1), counter);
  CHECK_THROWS_WITH_AS(sync.leave(test_device(), Follow::yes), doctest::Contains(as_tested("cpu:0 has no replica")),
                       SyncError);
}

TEST_CASE("buffer_sync: one thread drives all devices, and buffers need not be contiguous") {
  GradientSync sync(test_devices(2), {.consistency_every = 1});
  auto replicas = sync.replicate(Normed{});
  for (Normed& replica : replicas)
    replica.mean.set_array(Array::zeros({4}, DType::f32, replica.mean.device()).slice(0, 0, 4, 2));
  for (int i = 1; i <= 3; ++i) {
    for (Normed& replica : replicas) replica.zero_grad();
    auto first = sync.step(test_device());
    auto second = sync.step(test_device(1));
    second.backward_async(replicas[1].forward(data(1, i)));
    first.backward_async(replicas[0].forward(data(0, i)));
    join_all(first, second);
    CHECK(seen(replicas[0]) == seen(replicas[1]));
    CHECK(seen(replicas[0]).batches == i);
  }
}

TEST_CASE("buffer_sync: nothing is exchanged while reductions are off") {
  GradientSync sync(test_devices(2));
  auto replicas = sync.replicate(Normed{});
  sync.set_reductions_enabled(false);
  run_devices(2, [&](std::size_t d) {
    auto step = sync.step(device(d));
    step.backward(replicas[d].forward(data(d, 1)));
  });
  CHECK(seen(replicas[0]) != seen(replicas[1]));
}

TEST_CASE("buffer_sync: double buffering takes layers that synchronise themselves only") {
  Normed model;
  GradientSync sync(test_devices(1), {.overlap = Overlap::double_buffered});
  CHECK_THROWS_WITH_AS(sync.attach(test_device(), model), doctest::Contains(as_tested("buffer \"mean\" on cpu:0")),
                       SyncError);
  GradientSync allowed(test_devices(1), {.overlap = Overlap::double_buffered, .buffers = BufferPolicy::synchronised});
  allowed.attach(test_device(), model);
}

TEST_CASE("buffer_sync: replicas whose buffers differ are refused, both values named") {
  const auto error_of = [](const std::function<void(Normed&)>& change) -> std::string {
    GradientSync sync(test_devices(2));
    Normed first;
    Normed second = clone(first, test_device(1));
    change(second);
    sync.attach(test_device(), first);
    try {
      sync.attach(test_device(1), second);
    } catch (const SyncError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(error_of([](Normed& m) { m.mean = Tensor(Array::zeros({3}, DType::f32, test_device(1))); }) ==
        as_tested("[sync] buffer \"mean\" has shape [3] on cpu:1 and [2] on cpu:0"));
  CHECK(error_of([](Normed& m) { m.batches = Tensor(Array::zeros({}, DType::i32, test_device(1))); }) ==
        as_tested("[sync] buffer \"batches\" is i32 on cpu:1 and i64 on cpu:0"));
  CHECK(error_of([](Normed& m) { m.batches = {}; }) ==
        as_tested("[sync] cpu:1 has 1 buffers and cpu:0 has 2: the first unmatched one is \"batches\""));
  CHECK(error_of([](Normed& m) { m.mean = {}; }) ==
        as_tested("[sync] buffer 0 is \"batches\" on cpu:1 and \"mean\" on cpu:0"));
  CHECK(contains(error_of([](Normed& m) { m.mean = Tensor(Array::zeros({2}, DType::f32, test_device())); }),
                 as_tested("lives on cpu:0")));
}

TEST_CASE("buffer_sync: the plan has a request per dtype, and nothing to do for one device or no buffers") {
  const auto share = [](std::size_t d, bool examples) {
    return BufferShare{.arrays = {Array::zeros({2}, DType::f32, device(d)), Array::zeros({}, DType::i64, device(d)),
                                  Array::zeros({3}, DType::f32, device(d))},
                       .ready = {},
                       .reads = true,
                       .examples = examples};
  };
  const BufferShare shares[] = {share(0, false), {}, share(2, true), share(3, true)};
  const SyncParameter buffers[] = {{.name = "a", .shape = {2}, .dtype = DType::f32},
                                   {.name = "b", .shape = {}, .dtype = DType::i64},
                                   {.name = "c", .shape = {3}, .dtype = DType::f32}};
  const auto plan = plan_buffers(BufferPolicy::mean, buffers, shares);
  REQUIRE(plan.size() == 2);
  REQUIRE(plan[0].parts.size() == 2);
  CHECK(plan[0].inputs.size() == 6);
  CHECK(plan[0].parts[1].count == 3);
  CHECK(plan[0].parts[1].sources.size() == 2);
  CHECK(plan[0].parts[1].targets.size() == 3);
  CHECK(plan[1].parts[0].sources.size() == 1);
  CHECK(plan[1].parts[0].targets.size() == 2);
  CHECK(plan_buffers(BufferPolicy::synchronised, buffers, shares).empty());
  CHECK(plan_buffers(BufferPolicy::main, buffers, {shares, 2}).empty());
  CHECK(plan_buffers(BufferPolicy::main, {}, {}).empty());
}
