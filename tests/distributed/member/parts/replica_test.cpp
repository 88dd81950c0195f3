// SPDX-License-Identifier: Apache-2.0
// One device's replica, beside a server of which nothing is asked but declarations.
#include <tutti/distributed/member/parts/replica.h>

#include <tutti/backend/error.h>
#include <tutti/distributed/engines/local/local_communicator.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/two_branches.h>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

struct Place {
  explicit Place(SyncOptions options = {})
      : server(GroupMembers(members_of(devices)), std::make_unique<LocalCommunicator>(), std::move(options)) {}
  MemberPlace of(MemberIndex member) { return {server, threads, member, devices[member]}; }

  std::vector<Device> devices{cpu(0), cpu(1)};
  DistributedSyncServer server;
  DeviceThreads threads{server.members()};
};

struct Counting : TwoBranches {
  Tensor seen{Array::from(std::vector<double>{5}, {1}, cpu(0))};
  void visit(MemberVisitor& v) override {
    TwoBranches::visit(v);
    v.buffer("seen", seen);
  }
};

const int kGroup = 0;  // its address is an identity

std::string text_of(const ReplicaDigest& digest) {
  std::string text;
  for (const NamedDigest& one : digest) text += one.name + ' ' + to_string(one.digest) + '\n';
  return text;
}

}  // namespace

TEST_CASE("replica: a copy restores parameters, buffers and optimizers, and the digest tells whether it did") {
  Place place;
  Counting model;
  Replica replica(place.of(0));
  replica.attach(model, &kGroup, {});
  Sgd optimizer(model.parameters(), 0.5);
  replica.refuse_optimizer(optimizer);
  replica.attach(optimizer);
  const std::string before = text_of(replica.digest());
  const auto state = replica.capture();

  Array(model.left.array()).fill(9.0);
  Array(model.seen.array()).fill(9.0);
  optimizer.set_learning_rate(0.1);
  CHECK(text_of(replica.digest()) != before);
  replica.restore(*state);
  CHECK(text_of(replica.digest()) == before);
  CHECK(model.left.to_vector<double>() == Values{1, 2});
  CHECK(model.seen.to_vector<double>() == Values{5});
  CHECK(optimizer.learning_rate() == 0.5);
}

TEST_CASE("replica: after a failed step only buffers are taken back") {
  Place place;
  Counting model;
  Replica replica(place.of(0));
  replica.attach(model, &kGroup, {});
  const auto state = replica.capture();
  Array(model.left.array()).fill(9.0);
  Array(model.seen.array()).fill(9.0);
  replica.restore_buffers(*state);
  CHECK(model.left.to_vector<double>() == Values{9, 9});
  CHECK(model.seen.to_vector<double>() == Values{5});
}

TEST_CASE("replica: what does not fit is refused, and nothing is taken") {
  Place place;
  TwoBranches model;
  Replica elsewhere(place.of(1));
  CHECK_THROWS_WITH_AS(elsewhere.attach(model, &kGroup, {}),
                       "[sync] parameter \"left\" of the replica for cpu:1 lives on cpu:0", SyncError);
  CHECK_FALSE(elsewhere.is_attached());
  CHECK_FALSE(place.server.has_replicas());

  Replica replica(place.of(0));
  replica.attach(model, &kGroup, {});
  TwoBranches other;
  Sgd foreign(other.parameters(), 0.5);
  CHECK_THROWS_AS(replica.refuse_optimizer(foreign), SyncError);
  Replica without(place.of(1));
  CHECK_THROWS_WITH_AS(without.require("sync.step"),
                       "[sync.step] cpu:1 has no replica: attach one before the first step, as other devices did",
                       SyncError);
}

TEST_CASE("replica: a parameter that was frozen when it was attached may not require a gradient later") {
  Place place;
  TwoBranches model;
  model.right.set_requires_grad(false);
  Replica replica(place.of(0));
  replica.attach(model, &kGroup, {});
  replica.refuse_unfrozen();
  CHECK(replica.parameters().size() == 1);
  model.right.set_requires_grad(true);
  CHECK_THROWS_AS(replica.refuse_unfrozen(), SyncError);
}

TEST_CASE("replica: arenas are one for each step on its way, and none for scattered gradients") {
  Place immediate, buffered({.overlap = Overlap::double_buffered}), scattered({.sharding = Sharding::gradients});
  CHECK_FALSE(Replica(immediate.of(0)).gradients().scattered());
  CHECK_FALSE(Replica(buffered.of(0)).gradients().scattered());
  CHECK(Replica(scattered.of(0)).gradients().scattered());
}
