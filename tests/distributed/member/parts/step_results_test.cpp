// SPDX-License-Identifier: Apache-2.0
// The parts of a step, put together for two devices without a GradientSync around them.
#include <tutti/distributed/member/parts/gradient_poster.h>
#include <tutti/distributed/member/parts/step_results.h>

#include <tutti/autodiff/backward.h>
#include <tutti/backend/error.h>
#include <tutti/backend/process/error_text.h>
#include <tutti/distributed/engines/local/local_communicator.h>
#include <tutti/tests/distributed/two_branches.h>

#include <doctest/doctest.h>

#include <stdexcept>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

struct Side {
  explicit Side(const MemberPlace& place)
      : place(place),
        standing(place.index),
        replica(place),
        weight(place.name()),
        results(place, standing, replica.gradients()),
        poster(place, standing, weight, replica, results) {
    model.visit_as(place.device);
    replica.attach(model, this, {});
  }

  void begin() {
    results.begin_step();
    replica.gradients().prepare(place.server.layout());
    standing.begin_generation();
    poster.begin_step();
    place.thread().enter(DeviceThread::Phase::open, standing.generation());
    weight.begin_step();
  }
  void backward(const Tensor& loss) {
    weight.add(1.0);
    BackwardOptions options;
    options.observer = &poster;
    options.owner = this;
    tutti::backward(loss, options);
  }

  struct Model : TwoBranches {
    void visit_as(Device device) {
      left = Tensor(left.array().to(device), true);
      right = Tensor(right.array().to(device), true);
    }
  };

  const MemberPlace place;
  Model model;
  Standing standing;
  Replica replica;
  StepWeight weight;
  StepResults results;
  GradientPoster poster;
};

struct Pair {
  std::vector<Device> devices{cpu(0), cpu(1)};
  DistributedSyncServer server{GroupMembers(members_of(devices)), std::make_unique<LocalCommunicator>(), {}};
  DeviceThreads threads{server.members()};
  Side first{{server, threads, 0, devices[0]}};
  Side second{{server, threads, 1, devices[1]}};
};

}  // namespace

TEST_CASE("step_results: a posted step's gradients are there once its release was taken") {
  Pair pair;
  for (Side* side : {&pair.first, &pair.second}) side->begin();
  pair.first.backward(use(pair.first.model.left, 1.0) + use(pair.first.model.right, 1.0));
  CHECK(pair.first.results.is_posted());
  CHECK(pair.first.results.may_join());
  pair.second.backward(use(pair.second.model.left, 3.0));  // `right` counts as zeros
  for (Side* side : {&pair.first, &pair.second}) {
    side->results.finish_posted();
    CHECK_FALSE(side->results.failure());
    CHECK(gradient_of(side->model.left) == Values{2, 2});
    CHECK(gradient_of(side->model.right) == Values{0.5, 0.5});
    CHECK(side->results.joined_generation() == 1);
    CHECK(side->results.total_weight() == 2.0);
    CHECK(side->results.last_applied() == 0);  // nobody has written to the parameters since
    Array(side->model.left.array()).fill(1.0);
    CHECK(side->results.last_applied() == 1);
  }
}

TEST_CASE("step_results: without a loss a device takes part with nothing") {
  Pair pair;
  for (Side* side : {&pair.first, &pair.second}) side->begin();
  pair.second.poster.post_without_loss();
  pair.first.backward(use(pair.first.model.left, 4.0));
  for (Side* side : {&pair.first, &pair.second}) {
    side->results.finish_posted();
    CHECK(gradient_of(side->model.left) == Values{4, 4});
    CHECK(gradient_of(side->model.right).empty());
  }
}

TEST_CASE("step_results: a failure ends what was posted, with the culprit's name, and leaves no gradients") {
  Pair pair;
  for (Side* side : {&pair.first, &pair.second}) side->begin();
  pair.first.backward(use(pair.first.model.left, 1.0));
  pair.second.results.fail(std::make_exception_ptr(std::runtime_error("no more data")));
  pair.first.results.finish_posted();
  for (Side* side : {&pair.first, &pair.second}) {
    REQUIRE(side->results.failure());
    const std::string text = text_of(side->results.failure());
    CHECK_MESSAGE(text.find("cpu:1") != std::string::npos, text);
    CHECK_MESSAGE(text.find("no more data") != std::string::npos, text);
    CHECK(gradient_of(side->model.left).empty());
    CHECK(side->results.may_join());
  }
  pair.first.results.forget();
  CHECK_FALSE(pair.first.results.may_join());
}
