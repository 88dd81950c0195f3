// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/messages/replica_check.h>

#include <tutti/backend/error.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/two_branches.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <chrono>
#include <set>
#include <thread>

using namespace tutti;
using namespace tutti::testing;
using std::chrono::milliseconds;

namespace {

struct WithBuffer : TwoBranches {
  Tensor seen{Array::from(std::vector<float>{0, 0, 0}, {3}, test_device())};
  void visit(MemberVisitor& v) override {
    TwoBranches::visit(v);
    v.buffer("seen", seen);
  }
};

template <class T> Digest digest(const std::vector<T>& values) { return digest_of(std::as_bytes(std::span(values))); }

void overwrite(const Tensor& tensor, double value) {
  Array array = tensor.array();
  array.slice(0, 1, 2).fill(value);
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Steps of all devices; before step `at`, `disturb(device)` is called. What each device threw.
template <class Disturb> std::vector<std::string> train(GradientSync& sync, std::vector<WithBuffer>& replicas,
                                                        std::int64_t steps, std::int64_t at, Disturb disturb) {
  return errors_of_devices(replicas.size(), [&](std::size_t d) {
    Sgd optimizer(replicas[d].parameters(), 0.1);
    for (std::int64_t i = 1; i <= steps; ++i) {
      if (i == at) disturb(d);
      optimizer.zero_grad();
      auto step = sync.step(test_device(d));
      step.backward(use(replicas[d].left, 1.0) + use(replicas[d].right, static_cast<double>(d)));
      optimizer.step();
    }
  });
}

}  // namespace

TEST_CASE("replica_check: the digest sees every bit, every place and the length") {
  std::set<std::string> digests{to_string(digest<std::uint8_t>({}))};
  const std::vector<std::uint8_t> zeros(23, 0);  // the last word is not full
  digests.insert(to_string(digest(zeros)));
  for (std::size_t bit = 0; bit < 23 * 8; ++bit) {
    auto bytes = zeros;
    bytes[bit / 8] = static_cast<std::uint8_t>(1U << (bit % 8));
    digests.insert(to_string(digest(bytes)));
  }
  for (std::size_t length = 1; length < 23; ++length)
    digests.insert(to_string(digest(std::vector<std::uint8_t>(length))));
  CHECK(digests.size() == 2 + 23 * 8 + 22);
  CHECK(digest<double>({1, 2, 3}) == digest<double>({1, 2, 3}));
  CHECK(digest<double>({1, 2, 3}) != digest<double>({2, 1, 3}));
  CHECK(digest<double>({0.0}) != digest<double>({-0.0}));
  CHECK(to_string(Digest{1, 0xabcdef}) == "00000000000000010000000000abcdef");
}

TEST_CASE("replica_check: names the first that differs and every device that differs there") {
  const std::vector<Device> devices = test_devices(4);
  ReplicaCheck check(4);
  const auto none_left = [](MemberIndex) { return false; };
  CHECK(check.empty());
  check.post(0, {{"parameter \"a\"", {1, 1}}, {"parameter \"b\"", {2, 2}}}, nullptr);
  check.post(1, {{"parameter \"a\"", {1, 1}}, {"parameter \"b\"", {9, 9}}}, nullptr);
  check.post(3, {{"parameter \"a\"", {7, 1}}, {"parameter \"b\"", {2, 2}}}, nullptr);
  CHECK(check.missing(none_left) == std::vector<MemberIndex>{2});
  CHECK(check.missing([](MemberIndex member) { return member == 2; }).empty());
  check.post(2, {{"parameter \"a\"", {8, 1}}, {"parameter \"b\"", {2, 2}}}, nullptr);
  CHECK_FALSE(check.awaited());
  CHECK_THROWS_AS(check.post(2, {}, nullptr), SyncError);
  const auto difference = check.difference(GroupMembers(members_of(devices)));
  REQUIRE(difference);
  CHECK(difference->member == 2);
  CHECK(difference->text ==
        as_tested("parameter \"a\" on cpu:0 (digest 00000000000000010000000000000001) is not the same on cpu:2 (digest "
                  "00000000000000080000000000000001), nor on cpu:3 (digest 00000000000000070000000000000001)"));
  check.clear();
  CHECK(check.empty());
}

TEST_CASE("replica_check: equal replicas train on, every check compared") {
  GradientSync sync(test_devices(3), {.consistency_every = 3, .recorded_events = 4096});
  auto replicas = sync.replicate(WithBuffer{});
  for (const std::string& error : train(sync, replicas, 10, 0, [](std::size_t) {})) CHECK(error == "");
  const std::string events = sync.recent_events();
  for (const char* generation : {"1 ", "4 ", "7 ", "10"})
    CHECK_MESSAGE(contains(events, std::string("generation ") + generation + "      compare"), events);
  CHECK_FALSE(contains(events, "generation 2       compare"));
}

TEST_CASE("replica_check: a device that writes into a weight is found by the next check, before anybody steps") {
  GradientSync sync(test_devices(3), {.consistency_every = 4});
  auto replicas = sync.replicate(WithBuffer{});
  const auto errors = train(sync, replicas, 12, 3, [&](std::size_t d) {
    if (d == 1) overwrite(replicas[d].right, 3.5);
    if (d == 2) overwrite(replicas[d].seen, 1.0);
  });
  for (const std::string& error : errors) {
    CAPTURE(error);
    CHECK(contains(error, as_tested("[sync] replicas differ in generation 5: parameter \"right\" on cpu:0")));
    CHECK(contains(error, as_tested("not the same on cpu:1")));
    CHECK_FALSE(contains(error, as_tested("cpu:2")));
  }
  CHECK(replicas[0].left.to_vector<double>()[0] == doctest::Approx(1.0 - 4 * 0.1));  // four steps were applied
}

TEST_CASE("replica_check: buffers are compared too, and replicas attached unequal are found at once") {
  GradientSync sync(test_devices(2), {.consistency_every = 100});
  auto replicas = sync.replicate(WithBuffer{});
  const auto errors = train(sync, replicas, 2, 1, [&](std::size_t d) {
    if (d == 1) overwrite(replicas[d].seen, 2.0);
  });
  for (const std::string& error : errors)
    CHECK_MESSAGE(contains(error, as_tested("in generation 1: buffer \"seen\" on cpu:0")), error);
}

TEST_CASE("replica_check: frozen parameters are compared, and copied to a device that is behind") {
  TwoBranches model;
  model.right.set_requires_grad(false);
  GradientSync sync(test_devices(2));
  auto replicas = sync.replicate(model);
  overwrite(replicas[1].right, 7.0);
  const Device devices[] = {test_device(), test_device(1)};
  CHECK_THROWS_WITH_AS(sync.check_consistency(devices), doctest::Contains("\"right\""), SyncError);
  const GradientSync::Rejoining both[] = {{test_device(), 1}, {test_device(1), 0}};
  sync.rejoin_all(both);
  sync.check_consistency(devices);
}

TEST_CASE("replica_check: frozen parameters that differ are refused when a replica is attached") {
  TwoBranches model;
  model.right.set_requires_grad(false);
  TwoBranches other = clone(model, test_device(1));
  other.right = Tensor(Array::zeros({3}, DType::f64, test_device(1)));
  GradientSync sync(test_devices(2));
  sync.attach(test_device(), model);
  CHECK_THROWS_WITH_AS(
      sync.attach(test_device(1), other),
      doctest::Contains(as_tested("frozen parameter \"right\" has shape [3] on cpu:1 and [2] on cpu:0")), SyncError);
}

TEST_CASE("replica_check: after a failure the state that rejoining copies makes the replicas equal again") {
  GradientSync sync(test_devices(2), {.consistency_every = 1});
  auto replicas = sync.replicate(WithBuffer{});
  const auto errors = train(sync, replicas, 3, 3, [&](std::size_t d) {
    if (d == 1) overwrite(replicas[d].left, 9.0);
  });
  for (const std::string& error : errors) CHECK_MESSAGE(contains(error, "generation 3: parameter \"left\""), error);
  run_devices(2, [&](std::size_t d) { sync.rejoin(test_device(d), d == 0 ? 2 : 0); });
  for (const std::string& error : train(sync, replicas, 3, 0, [](std::size_t) {})) CHECK(error == "");
}

TEST_CASE("replica_check: asked for, it waits for all, passes, and finds a difference on every device") {
  GradientSync sync(test_devices(3));
  auto replicas = sync.replicate(WithBuffer{});
  run_devices(3, [&](std::size_t d) {
    for (int i = 0; i < 20; ++i) sync.check_consistency(test_device(d));
  });
  sync.check_consistency(sync.devices());  // one thread for all
  overwrite(replicas[2].left, 0.5);
  const auto errors = errors_of_devices(3, [&](std::size_t d) { sync.check_consistency(test_device(d)); });
  for (const std::string& error : errors)
    CHECK_MESSAGE(contains(error, as_tested("parameter \"left\" on cpu:0")), error);
  CHECK_THROWS_WITH_AS(sync.check_consistency(test_device()), doctest::Contains("\"left\""),
                       SyncError);  // the group's error
}

TEST_CASE("replica_check: a device that does not come is named after the deadline; one that leaves is not missed") {
  GradientSync sync(test_devices(3),
                    {.warn_after = milliseconds(15), .fail_after = milliseconds(60), .warn = [](auto&) {}});
  auto replicas = sync.replicate(WithBuffer{});
  sync.leave(test_device(2));
  const auto errors = errors_of_devices(3, [&](std::size_t d) {
    if (d == 0) sync.check_consistency(test_device());
  });
  CHECK_MESSAGE(contains(errors[0], as_tested("before generation 1 for the replica check of cpu:1")), errors[0]);
  CHECK_FALSE(contains(errors[0], as_tested("cpu:2")));

  GradientSync other(test_devices(2));
  auto others = other.replicate(WithBuffer{});
  run_devices(2, [&](std::size_t d) {
    if (d == 0) return other.check_consistency(test_device());
    std::this_thread::sleep_for(milliseconds(5));
    other.leave(test_device(1));
  });
}

TEST_CASE("replica_check: a device's failure and closing end the wait; inside a step it is refused") {
  GradientSync sync(test_devices(2));
  auto replicas = sync.replicate(WithBuffer{});
  const auto errors = errors_of_devices(2, [&](std::size_t d) {
    if (d == 0) return sync.check_consistency(test_device());
    auto step = sync.step(test_device(1));
    CHECK_THROWS_WITH_AS(sync.check_consistency(test_device(1)), doctest::Contains("between steps"), SyncError);
    throw std::runtime_error("burnt");
  });
  CHECK_MESSAGE(contains(errors[0], as_tested("cpu:1 failed")), errors[0]);

  GradientSync closing(test_devices(2));
  auto others = closing.replicate(WithBuffer{});
  const auto ends = errors_of_devices(2, [&](std::size_t d) {
    if (d == 0) return closing.check_consistency(test_device());
    std::this_thread::sleep_for(milliseconds(5));
    closing.close();
  });
  CHECK_MESSAGE(contains(ends[0], "closed"), ends[0]);
}
