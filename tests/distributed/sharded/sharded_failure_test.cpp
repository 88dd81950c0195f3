// SPDX-License-Identifier: Apache-2.0
// Failures of groups that shard: what can go on does, and what cannot says so. And what is refused.
#include <tutti/backend/error.h>
#include <tutti/tests/distributed/sharded/sharded_training.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr Sharding kShardings[] = {Sharding::optimizer_state, Sharding::gradients};

void fail_in_forward(BranchingTraining& training, std::size_t culprit) {
  const auto errors = errors_of_devices(training.devices.size(), [&](std::size_t d) {
    training.sharded[d]->zero_grad();
    auto step = training.sync->step(training.devices[d]);
    if (d == culprit) throw std::runtime_error("forward burnt");
    step.backward(training.replicas[d].loss(2, training.devices[d]));
  });
  for (const std::string& error : errors) CHECK_FALSE(error.empty());
}

std::vector<std::string> rejoin(BranchingTraining& training, std::vector<std::int64_t> last_steps) {
  return errors_of_devices(training.devices.size(),
                           [&](std::size_t d) { training.sync->rejoin(training.devices[d], last_steps[d]); });
}

struct Checkpoint {
  explicit Checkpoint(BranchingTraining& training) : state(training.state()) {
    for (const Tensor& parameter : training.replicas[0].parameters()) parameters.push_back(parameter.array().copy());
  }
  void load(BranchingTraining& training) const {
    for (Branching& replica : training.replicas) {
      std::size_t i = 0;
      for (const Tensor& parameter : replica.parameters()) Array(parameter.array()).copy_from(parameters[i++]);
    }
    training.load_state(state);
  }
  Optimizer::State state;
  std::vector<Array> parameters;
};

}  // namespace

TEST_CASE("sharded: after a failed backward the group goes on where it was") {
  BranchingTraining reference(3, Sharding::none, adamw());
  reference.run(0, 8);
  for (const Sharding sharding : kShardings) {
    BranchingTraining training(3, sharding, adamw());
    training.run(0, 4);
    fail_in_forward(training, 1);
    for (const std::string& error : rejoin(training, {4, 4, 4})) CHECK(error == "");
    training.run(4, 8);
    CHECK(values_of(training.replicas[2]) == values_of(reference.replicas[2]));
    CHECK(difference(training.state(), reference.state()) == "");
  }
}

TEST_CASE(
    "sharded: a device that fails before its update leaves the others between two steps, until a checkpoint is "
    "loaded") {
  BranchingTraining reference(2, Sharding::none, adamw());
  reference.run(0, 6);
  for (const Sharding sharding : kShardings) {
    BranchingTraining training(2, sharding, adamw());
    training.run(0, 4);
    const Checkpoint checkpoint(training);
    run_devices(2, [&](std::size_t d) { training.backward(d, 4); });
    training.sharded[0]->step_async();
    training.sync->fail(training.devices[1], std::make_exception_ptr(std::runtime_error("disk full")));
    CHECK_THROWS_WITH_AS(training.sharded[0]->join(), doctest::Contains("disk full"), SyncError);
    for (const std::string& error : rejoin(training, {4, 4}))
      CHECK_MESSAGE(error.find(as_tested("the parameters of cpu:0 are between steps 4 and 5")) != std::string::npos,
                    error);
    training.sharded[0]->load_state(checkpoint.state);  // on one device only
    for (const std::string& error : rejoin(training, {4, 4}))
      CHECK_MESSAGE(error.find(as_tested("the parameters of cpu:1 are between steps")) != std::string::npos, error);
    checkpoint.load(training);
    for (const std::string& error : rejoin(training, {4, 4})) CHECK(error == "");
    training.run(4, 6);
    CHECK(values_of(training.replicas[0]) == values_of(reference.replicas[0]));
    CHECK(values_of(training.replicas[1]) == values_of(reference.replicas[0]));
  }
}

TEST_CASE("sharded: an update that throws tears the step on every device") {
  struct Failing : Sgd {
    using Sgd::Sgd;
    void update(std::span<const Update> updates) override {
      for (const Update& each : updates)
        if (each.parameter.device() == test_device(1) && each.parameter.size() > 1)
          throw std::runtime_error("update burnt");
    }
  };
  const auto factory = [](std::vector<Tensor> pieces) -> std::unique_ptr<Optimizer> {
    return std::make_unique<Failing>(std::move(pieces), 0.1);
  };
  BranchingTraining training(2, Sharding::optimizer_state, factory);
  std::atomic<bool> begun{false};
  const auto errors = errors_of_devices(2, [&](std::size_t d) {
    auto step = training.sync->step(training.devices[d]);
    step.backward(training.replicas[d].loss(1, training.devices[d]));
    if (d == 1) begun.wait(false);  // once this has failed, no update begins
    training.sharded[d]->step_async();
    begun = true;
    begun.notify_one();
    training.sharded[d]->join();
  });
  CHECK(errors[1] == "update burnt");
  CHECK_MESSAGE(errors[0].find(as_tested("cpu:1")) != std::string::npos, errors[0]);
  CHECK_FALSE(training.sharded[0]->whole());
  CHECK_FALSE(training.sharded[1]->whole());
  CHECK_THROWS_AS(training.sharded[1]->join(), SyncError);
}

TEST_CASE("sharded: nobody can give a device that is behind its share's state") {
  BranchingTraining training(2, Sharding::optimizer_state, sgd());
  training.run(0, 3);
  fail_in_forward(training, 0);
  for (const std::string& error : rejoin(training, {3, 2}))
    CHECK_MESSAGE(error.find(as_tested("cpu:1 is behind other devices")) != std::string::npos, error);
  for (const std::string& error : rejoin(training, {3, 3})) CHECK(error == "");
}

TEST_CASE("sharded: a device whose data has ended keeps updating its share") {
  const auto train = [](BranchingTraining& training) {
    run_devices(3, [&](std::size_t d) {
      const int last = d == 1 ? 3 : 9;
      for (int step = 0; step < last; ++step) {
        training.backward(d, step);
        training.update(d);
      }
      training.sync->leave(training.devices[d], Follow::yes);
      while (training.sync->follow(training.devices[d])) {
        training.update(d);
        if (training.sharded.empty())
          training.plain[d]->zero_grad();
        else
          training.sharded[d]->zero_grad();
      }
    });
  };
  BranchingTraining reference(3, Sharding::none, sgd());
  train(reference);
  for (const Sharding sharding : kShardings) {
    BranchingTraining training(3, sharding, sgd());
    train(training);
    for (const Branching& replica : training.replicas) CHECK(values_of(replica) == values_of(reference.replicas[0]));
  }
}

TEST_CASE("sharded: what cannot be combined is refused") {
  CHECK_THROWS_WITH_AS(GradientSync(test_devices(2), {.absent = Absent::subset, .sharding = Sharding::gradients}),
                       doctest::Contains("Absent::subset"), SyncError);
  CHECK_THROWS_WITH_AS(
      GradientSync(test_devices(2), {.overlap = Overlap::double_buffered, .sharding = Sharding::optimizer_state}),
      doctest::Contains("Overlap::immediate"), SyncError);
  BranchingTraining plain(2, Sharding::none, sgd());
  CHECK_THROWS_WITH_AS(ShardedOptimizer(*plain.sync, test_device(), sgd()), doctest::Contains("SyncOptions::sharding"),
                       SyncError);
  BranchingTraining training(2, Sharding::optimizer_state, sgd());
  CHECK_THROWS_WITH_AS(ShardedOptimizer(*training.sync, test_device(), sgd()),
                       doctest::Contains("sharded optimizer already"), SyncError);
  CHECK_THROWS_WITH_AS(training.sync->leave(test_device()), doctest::Contains("Follow::yes"), SyncError);
  GradientSync empty(test_devices(1), {.sharding = Sharding::gradients});
  CHECK_THROWS_WITH_AS(ShardedOptimizer(empty, test_device(), sgd()), doctest::Contains("attach one first"), SyncError);
}

TEST_CASE("sharded: a scattered gradient is for its sharded optimizer alone") {
  BranchingTraining training(2, Sharding::gradients, sgd());
  errors_of_devices(2, [&](std::size_t d) {
    Branching& replica = training.replicas[d];
    training.backward(d, 1);
    CHECK_THROWS_WITH_AS(replica.in_bias.grad(), doctest::Contains(as_tested("\"in_bias\" on cpu:")), AutodiffError);
    const auto ordinary = sgd()(replica.parameters());
    CHECK_THROWS_WITH_AS(ordinary->step(), doctest::Contains("step its ShardedOptimizer"), Error);
    CHECK_THROWS_WITH_AS(clip_grad_norm(replica.parameters(), 1.0), doctest::Contains("scattered"), Error);
    training.update(d);
    auto step = training.sync->step(training.devices[d]);
    CHECK_THROWS_WITH_AS(step.backward(replica.loss(2, training.devices[d])), doctest::Contains("zero_grad"),
                         AutodiffError);
  });
}

TEST_CASE("sharded: one thread drives two devices") {
  BranchingTraining plain(2, Sharding::none, sgd());
  plain.run(1, 4);
  BranchingTraining training(2, Sharding::gradients, sgd());
  for (int i = 1; i < 4; ++i) {
    for (auto& optimizer : training.sharded) optimizer->zero_grad();
    auto first = training.sync->step(test_device(), Branching::weight(i, test_device()));
    auto second = training.sync->step(test_device(1), Branching::weight(i, test_device(1)));
    first.backward_async(training.replicas[0].loss(i, test_device()));
    second.backward_async(training.replicas[1].loss(i, test_device(1)));
    join_all(first, second);
    if (i == 2)
      for (const auto& call : {std::function<void()>([&] { training.sharded[0]->step(); }),
                               std::function<void()>([&] { (void)training.sharded[0]->clip_grad_norm(1.0); }),
                               std::function<void()>([&] { (void)training.sharded[0]->state(); })})
        CHECK_THROWS_WITH_AS(call(), doctest::Contains("this same thread opened"), SyncError);  // and changes nothing
    training.sharded[0]->step_async();
    training.sharded[1]->step_async();
    for (auto& optimizer : training.sharded) optimizer->join();
  }
  CHECK(values_of(training.replicas[1]) == values_of(plain.replicas[1]));
}
