// SPDX-License-Identifier: Apache-2.0
// With what a device that follows takes part in a group: its replica, its optimizers, its share of the parameters.
#include <tutti/backend/error.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/sharded/sharded_training.h>
#include <tutti/tests/distributed/two_branches.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

using namespace tutti;
using namespace tutti::testing;

namespace {

Device follower() { return test_device(); }
Device other() { return test_device(1); }

SyncOptions impatient(SyncOptions options = {}) {
  options.fail_after = std::chrono::seconds(20);
  return options;
}

void fail(GradientSync& sync) { sync.fail(other(), std::make_exception_ptr(std::runtime_error("disk full"))); }

/// A step of the device that has not left.
void step(GradientSync& sync, TwoBranches& replica) {
  auto step = sync.step(other());
  step.backward(use(replica.left, 1) + use(replica.right, 2));
}

/// Sharded over two devices, of which the first follows.
struct FollowedTraining : BranchingTraining {
  FollowedTraining() : BranchingTraining(2, Sharding::optimizer_state, sgd(), impatient()) {
    sync->leave(follower(), Follow::yes);
  }
  /// A step of the other device, which the follower fetches. Both apply it, or neither.
  void step(int step, bool applied = true) {
    run_devices(2, [&](std::size_t d) {
      if (d == 1)
        backward(1, step);
      else
        CHECK(sync->follow(follower()));
      if (!applied) return;
      if (!sharded[d]) sharded[d] = std::make_unique<ShardedOptimizer>(*sync, devices[d], sgd());
      update(d);
      sharded[d]->zero_grad();
    });
  }
  void form_next_group(std::int64_t last_step) {
    fail(*sync);
    sync->rejoin(other(), last_step);
  }
};

const std::string kFollowFirst = to_string(follower()) + " is of group 1, but group 2 has formed: follow first";

void check_trained_as(const FollowedTraining& reference, const FollowedTraining& training) {
  CHECK(values_of(training.replicas[0]) == values_of(reference.replicas[1]));
  CHECK(values_of(training.replicas[1]) == values_of(reference.replicas[1]));
}

}  // namespace

TEST_CASE("follow: without a replica there is nothing to follow with, until one is attached") {
  GradientSync sync(test_devices(2), impatient());
  sync.leave(follower(), Follow::yes);
  TwoBranches model;
  auto replica = clone(model, other());
  sync.attach(other(), replica);
  step(sync, replica);
  CHECK_THROWS_WITH_AS((void)sync.follow(follower()),
                       doctest::Contains(("[sync.follow] " + to_string(follower()) + " has no replica").c_str()),
                       SyncError);
  sync.attach(follower(), model);
  CHECK(sync.follow(follower()));
  CHECK(gradient_of(model.left) == gradient_of(replica.left));
  CHECK(gradient_of(model.right) == gradient_of(replica.right));
}

TEST_CASE("follow: in_backward needs the others' optimizers, attached after the device has left too") {
  const std::string difference =
      "parameter \"right\" has an optimizer on " + to_string(other()) + " and none on " + to_string(follower());
  GradientSync sync(test_devices(2), impatient({.overlap = Overlap::in_backward}));
  std::vector<TwoBranches> replicas;
  std::vector<std::unique_ptr<Sgd>> optimizers;
  const auto attach = [&](Device device, std::vector<Tensor> parameters) {
    optimizers.push_back(std::make_unique<Sgd>(std::move(parameters), 0.125));
    sync.attach(device, *optimizers.back());
  };
  SUBCASE("with the replica") {
    sync.leave(follower(), Follow::yes);
    replicas = sync.replicate(TwoBranches());
    attach(follower(), {replicas[0].left});
    attach(other(), replicas[1].parameters());
  }
  SUBCASE("in the next group") {
    replicas = sync.replicate(TwoBranches());
    attach(follower(), {replicas[0].left});
    attach(other(), {replicas[1].left});
    sync.leave(follower(), Follow::yes);
    fail(sync);
    sync.rejoin(other(), 0);
    attach(other(), {replicas[1].right});
  }
  step(sync, replicas[1]);
  for (int again = 0; again < 2; ++again)
    CHECK_THROWS_WITH_AS((void)sync.follow(follower()), doctest::Contains(difference.c_str()), SyncError);
  CHECK_THROWS_WITH_AS(step(sync, replicas[1]), doctest::Contains(difference.c_str()), SyncError);
  CHECK(replicas[0].left.to_vector<double>() == Values{1, 2});
  CHECK(replicas[0].right.to_vector<double>() == Values{3, 4});
}

TEST_CASE("follow: in_backward takes optimizers that all devices attach in the next group") {
  GradientSync sync(test_devices(2), impatient({.overlap = Overlap::in_backward}));
  auto replicas = sync.replicate(TwoBranches());
  std::vector<std::unique_ptr<Sgd>> optimizers;
  const auto attach = [&](std::size_t d, const Tensor& parameter) {
    optimizers.push_back(std::make_unique<Sgd>(std::vector<Tensor>{parameter}, 0.125));
    sync.attach(test_device(d), *optimizers.back());
  };
  for (std::size_t d = 0; d < 2; ++d) attach(d, replicas[d].left);
  sync.leave(follower(), Follow::yes);
  fail(sync);
  for (std::size_t d = 0; d < 2; ++d) attach(d, replicas[d].right);
  sync.rejoin(other(), 0);
  for (int i = 0; i < 2; ++i) {
    step(sync, replicas[1]);
    CHECK(sync.follow(follower()));
  }
  CHECK(replicas[0].left.to_vector<double>() == Values{0.75, 1.75});
  CHECK(replicas[0].right.to_vector<double>() == replicas[1].right.to_vector<double>());
}

TEST_CASE("follow: a rejoin that was refused does not take a share into the next group") {
  FollowedTraining reference;
  FollowedTraining training;
  training.step(1, false);
  training.form_next_group(0);
  CHECK_THROWS_WITH_AS(training.sync->rejoin(follower(), 0), doctest::Contains("has left: it cannot rejoin"),
                       SyncError);
  CHECK_THROWS_WITH_AS(training.sharded[0]->step_async(), doctest::Contains(kFollowFirst.c_str()), SyncError);
  CHECK_THROWS_WITH_AS(training.sync->barrier(follower()), doctest::Contains("a message of group 1"), SyncError);
  for (const int step : {3, 4}) {
    reference.step(step);
    training.step(step);
  }
  check_trained_as(reference, training);
}

TEST_CASE("follow: a sharded optimizer that is made anew takes part in the next group") {
  FollowedTraining reference;
  FollowedTraining training;
  training.form_next_group(0);
  training.sharded[0] = nullptr;
  for (const int step : {3, 4}) {
    reference.step(step);
    training.step(step);
  }
  check_trained_as(reference, training);
}

TEST_CASE("follow: a sharded optimizer that is made anew does not use what an older group has brought") {
  FollowedTraining reference;
  FollowedTraining training;
  training.step(1, false);
  training.sharded[0] = nullptr;
  training.form_next_group(0);
  training.sharded[0] = std::make_unique<ShardedOptimizer>(*training.sync, follower(), sgd());
  CHECK_THROWS_WITH_AS(training.sharded[0]->step_async(), doctest::Contains(kFollowFirst.c_str()), SyncError);
  for (const int step : {3, 4}) {
    reference.step(step);
    training.step(step);
  }
  check_trained_as(reference, training);
}

TEST_CASE("follow: shares are put together before the first step of the next group") {
  FollowedTraining reference;
  FollowedTraining training;
  for (FollowedTraining* one : {&reference, &training}) one->step(1);
  training.step(5, false);
  training.form_next_group(1);
  for (int again = 0; again < 2; ++again) CHECK(difference(training.state(), reference.state()) == "");
  CHECK(values_of(training.replicas[0]) == values_of(training.replicas[1]));
  for (const int step : {3, 4}) {
    reference.step(step);
    training.step(step);
  }
  check_trained_as(reference, training);
}
