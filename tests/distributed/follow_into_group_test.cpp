// SPDX-License-Identifier: Apache-2.0
// With what a device that follows takes part in a group: its replica, its optimizers, its share of the parameters.
#include <tutti/backend/error.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/sharded_training.h>
#include <tutti/tests/distributed/two_branches.h>

#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

using namespace tutti;
using namespace tutti::testing;

namespace {

const std::vector<Device> kDevices{cpu(0), cpu(1)};
const Device kFollower = kDevices[0];
const Device kOther = kDevices[1];

SyncOptions impatient(SyncOptions options = {}) {
  options.fail_after = std::chrono::seconds(20);
  return options;
}

void fail(GradientSync& sync) { sync.fail(kOther, std::make_exception_ptr(std::runtime_error("disk full"))); }

/// A step of the device that has not left.
void step(GradientSync& sync, TwoBranches& replica) {
  auto step = sync.step(kOther);
  step.backward(use(replica.left, 1) + use(replica.right, 2));
}

}  // namespace

TEST_CASE("follow: without a replica there is nothing to follow with, until one is attached") {
  GradientSync sync(kDevices, impatient());
  sync.leave(kFollower, Follow::yes);
  TwoBranches model;
  auto replica = clone(model, kOther);
  sync.attach(kOther, replica);
  step(sync, replica);
  CHECK_THROWS_WITH_AS((void)sync.follow(kFollower),
                       doctest::Contains(("[sync.follow] " + to_string(kFollower) + " has no replica").c_str()),
                       SyncError);
  sync.attach(kFollower, model);
  CHECK(sync.follow(kFollower));
  CHECK(gradient_of(model.left) == gradient_of(replica.left));
  CHECK(gradient_of(model.right) == gradient_of(replica.right));
}
