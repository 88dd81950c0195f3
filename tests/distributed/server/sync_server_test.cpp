// SPDX-License-Identifier: Apache-2.0
// The server alone, spoken to in messages that GradientSync would never send, with engines that fail.
#include <tutti/distributed/sync_server.h>

#include <tutti/backend/error.h>
#include <tutti/backend/process/error_text.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/engines/local/local_communicator.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/ledger/ledger_driver.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>
#include <thread>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

// The local engine, except that call number `fails_at` throws.
class FailingCommunicator : public LocalCommunicator {
 public:
  explicit FailingCommunicator(int fails_at) : fails_at_(fails_at) {}
  std::shared_ptr<CollectiveTask> all_reduce(AllReduceRequest request) override {
    if (++calls_ == fails_at_) throw std::runtime_error("link down");
    return LocalCommunicator::all_reduce(std::move(request));
  }

 private:
  int fails_at_;
  int calls_ = 0;
};

class BrokenCollectives : public LocalCommunicator {
 public:
  std::shared_ptr<CollectiveTask> collective(CollectiveRequest) override { throw std::runtime_error("link down"); }
};

const std::vector<SyncParameter> kParameters{{"a", {2}, DType::f64}, {"b", {3}, DType::f64}};

struct Group {
  explicit Group(std::unique_ptr<Communicator> communicator = std::make_unique<LocalCommunicator>(),
                 std::size_t devices = 2)
      : server(GroupMembers(members_of(test_devices(devices))), std::move(communicator),
               {.reduction = GradientReduction::mean, .bucket_bytes = 0}) {
    for (MemberIndex member = 0; member < devices; ++member) {
      server.declare_parameters(member, kParameters);
      arenas.push_back(
          std::make_shared<const GradientArena>(server.layout(), kParameters, cpu(static_cast<std::uint16_t>(member))));
    }
  }

  void begin(MemberIndex member, const Ids& ids, std::int64_t generation = 1) {
    const Device device = cpu(static_cast<std::uint16_t>(member));
    auto& arena = arenas[member];
    if (arena->layout() != server.layout())
      arena = std::make_shared<const GradientArena>(server.layout(), kParameters, device);
    const Event zeroed = compute_stream(device).record();  // others' results may be written from then on
    server.register_parameters({member, 1, generation}, 1.0, required_set(ids), arena, zeroed);
  }
  void submit(MemberIndex member, std::uint32_t id, Shape shape, DType dtype = DType::f64,
              std::int64_t generation = 1) {
    const Device device = cpu(static_cast<std::uint16_t>(member));
    Array gradient = Array::full(shape, member + 1.0, dtype, device);
    if (id < kParameters.size() && shape == kParameters[id].shape && dtype == kParameters[id].dtype) {
      const Array place = arenas[member]->gradient({id});
      Array(place).copy_from(gradient);
      gradient = place;
    }
    server.submit({member, 1, generation}, {id}, {gradient, compute_stream(device).record()}, arenas[member].get());
  }
  std::string error_of_sync(MemberIndex member, std::int64_t generation = 1) {
    const auto waiter = server.collective_sync({member, 1, generation});
    server.await(*waiter, member);
    return text_of(waiter->error());
  }

  DistributedSyncServer server;
  std::vector<std::shared_ptr<const GradientArena>> arenas;
};

void check_names(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) CHECK_MESSAGE(text.find(part) != std::string::npos, text, " lacks ", part);
}

}  // namespace

TEST_CASE("sync_server: a gradient of the wrong shape fails all, the offender included") {
  Group group;
  group.begin(0, {0});
  group.begin(1, {0});
  group.submit(1, 0, {5});
  for (const MemberIndex member : {0U, 1U}) check_names(group.error_of_sync(member), {"cpu:1", "\"a\"", "[5]", "[2]"});
}

TEST_CASE("sync_server: every text tells apart the same device of two processes") {
  const auto members = [] { return GroupMembers({{0, cpu(0)}, {1, cpu(0)}}); };
  DistributedSyncServer server(members(), std::make_unique<LocalCommunicator>(), {.recorded_events = 16});
  server.declare_parameters(0, kParameters);
  CHECK_THROWS_WITH_AS(server.declare_parameters(1, {{"a", {2}, DType::f64}}),
                       doctest::Contains("rank 1 cpu:0 has 1 parameters and rank 0 cpu:0 has 2"), SyncError);
  const auto waiter = server.collective_sync({1, 1, 1});
  server.await(*waiter, 1);
  CHECK(text_of(waiter->error()) ==
        "[sync] rank 1 cpu:0 submitted or synced in generation 1 without having registered");
  CHECK(server.report().devices == std::vector<Member>{{0, cpu(0)}, {1, cpu(0)}});
  check_names(server.recent_events(), {"fail           rank 1 cpu:0"});
}

TEST_CASE("sync_server: a gradient of the wrong dtype fails all") {
  Group group;
  group.begin(0, {1});
  group.begin(1, {1});
  group.submit(0, 1, {3}, DType::f32);
  for (const MemberIndex member : {0U, 1U}) check_names(group.error_of_sync(member), {"cpu:0", "\"b\"", "f32", "f64"});
}

TEST_CASE("sync_server: a gradient outside its place in the registered memory fails all") {
  Group group;
  group.begin(0, {0});
  group.begin(1, {0});
  const Array place = group.arenas[1]->gradient({0});
  Array gradient;
  SUBCASE("elsewhere") { gradient = Array::zeros({2}, DType::f64, cpu(1)); }
  SUBCASE("in another device's memory") { gradient = group.arenas[0]->gradient({0}); }
  SUBCASE("at its beginning, with other strides") { gradient = as_strided(place, {2}, {2}, place.offset()); }
  group.server.submit({1, 1, 1}, {0}, {gradient, {}}, group.arenas[1].get());
  for (const MemberIndex member : {0U, 1U})
    check_names(group.error_of_sync(member), {"cpu:1", "\"a\"", "registered memory"});
}

TEST_CASE("sync_server: unknown, unregistered, repeated and stale messages name the sender") {
  SUBCASE("unknown parameter") {
    Group group;
    group.begin(0, {0});
    group.submit(0, 9, {2});
    check_names(group.error_of_sync(1), {"cpu:0", "unknown", "9"});
  }
  SUBCASE("submitted twice") {
    Group group;
    group.begin(0, {0, 1});
    group.submit(0, 0, {2});
    group.submit(0, 0, {2});
    check_names(group.error_of_sync(1), {"cpu:0", "twice", "\"a\""});
  }
  SUBCASE("a generation that is not due") {
    Group group;
    group.begin(0, {0});
    group.begin(1, {0}, 4);
    check_names(group.error_of_sync(0), {"cpu:1", "4", "1"});
  }
}

TEST_CASE("sync_server: an engine that fails on some call fails all with its message") {
  for (const int call : {1, 2}) {
    Group group(std::make_unique<FailingCommunicator>(call));
    for (const MemberIndex member : {0U, 1U}) group.begin(member, {0, 1});
    for (const MemberIndex member : {0U, 1U}) {
      try {
        group.submit(member, 0, {2});
        group.submit(member, 1, {3});
      } catch (const SyncError&) {
        // the group has failed meanwhile
      }
    }
    for (const MemberIndex member : {0U, 1U}) check_names(group.error_of_sync(member), {"link down"});
    CHECK_THROWS_WITH_AS(group.begin(0, {}, 2), doctest::Contains("link down"), SyncError);
  }
}

TEST_CASE("sync_server: results are written in place, before the last device has posted its sync") {
  Group group;
  const Array mine = group.arenas[0]->gradient({0});
  group.begin(0, {0});
  group.begin(1, {0});
  group.submit(0, 0, {2});
  group.submit(1, 0, {2});
  const auto waiter = group.server.collective_sync({0, 1, 1});
  CHECK_FALSE(waiter->done());
  const auto other = group.server.collective_sync({1, 1, 1});
  group.server.await(*waiter, 0);
  REQUIRE(waiter->result()->reduced.size() == 1);
  const auto& reduced = waiter->result()->reduced[0];
  const std::shared_ptr<CollectiveTask> task[] = {reduced.task};
  join_tasks(cpu(0), task);
  CHECK(reduced.results[0].storage() == mine.storage());
  CHECK(mine.to_vector<double>() == std::vector<double>{1.5, 1.5});
}

TEST_CASE("sync_server: a device that leaves after its sync still counts in that generation") {
  Group group;
  group.begin(0, {0});
  group.submit(0, 0, {2});
  const auto first = group.server.collective_sync({0, 1, 1});
  group.server.leave({0, 1, 2}, false);
  group.begin(1, {0});
  group.submit(1, 0, {2});
  const auto second = group.server.collective_sync({1, 1, 1});
  group.server.await(*second, 1);
  REQUIRE(second->result()->reduced.size() == 1);
  const std::shared_ptr<CollectiveTask> task[] = {second->result()->reduced[0].task};
  join_tasks(cpu(1), task);
  CHECK(second->result()->reduced[0].results[1].to_vector<double>() == std::vector<double>{1.5, 1.5});
  CHECK(first->done());
}

TEST_CASE("sync_server: a device that leaves without a step completes the generation that another synced and left") {
  Group group;
  group.begin(0, {0});
  group.submit(0, 0, {2});
  const auto waiter = group.server.collective_sync({0, 1, 1});
  group.server.leave({0, 1, 2}, false);
  CHECK_FALSE(waiter->done());
  group.server.leave({1, 1, 1}, false);
  REQUIRE(waiter->done());
  CHECK_FALSE(waiter->error());
}

TEST_CASE("sync_server: what a device has submitted counts when the leave of another launches and completes it") {
  Group group(std::make_unique<LocalCommunicator>(), 3);
  for (const MemberIndex member : {0U, 1U}) {
    group.begin(member, {0});
    group.submit(member, 0, {2});
  }
  const auto first = group.server.collective_sync({0, 1, 1});
  const auto second = group.server.collective_sync({1, 1, 1});
  group.server.leave({0, 1, 2}, true);
  group.server.leave({2, 1, 1}, false);
  REQUIRE(second->done());
  REQUIRE(second->result()->reduced.size() == 1);
  const std::shared_ptr<CollectiveTask> task[] = {second->result()->reduced[0].task};
  join_tasks(cpu(1), task);
  for (const MemberIndex member : {0U, 1U})
    CHECK(second->result()->reduced[0].results[member].to_vector<double>() == std::vector<double>{1.0, 1.0});
  CHECK(first->done());
  const auto next = group.server.next_result(0);  // it has the first result already
  CHECK_FALSE(next->done());
  group.server.close();
}

TEST_CASE("sync_server: a gradient that comes when all devices have left is an error of its sender") {
  Group group;
  group.server.leave({0, 1, 1}, false);
  group.server.leave({1, 1, 1}, false);
  group.submit(1, 0, {2});
  CHECK_THROWS_WITH_AS(group.server.check_alive(), doctest::Contains("cpu:1"), SyncError);
}

TEST_CASE("sync_server: a second sync answers both waiters") {
  Group group;
  group.begin(0, {});
  const auto first = group.server.collective_sync({0, 1, 1});
  const auto second = group.server.collective_sync({0, 1, 1});
  REQUIRE(first->done());
  REQUIRE(second->done());
  for (const auto& waiter : {first, second}) check_names(text_of(waiter->error()), {"cpu:0", "twice"});
}

TEST_CASE("sync_server: a sync that comes after the failure is told what was launched before it") {
  Group group;
  for (const MemberIndex member : {0U, 1U}) group.begin(member, {0, 1});
  group.submit(0, 0, {2});
  group.submit(1, 0, {2});  // launches
  group.submit(0, 1, {3});
  group.server.await(*group.server.device_failed({1, 1, 1}, std::make_exception_ptr(std::runtime_error("lost"))), 1);
  const auto waiter = group.server.collective_sync({0, 1, 1});
  group.server.await(*waiter, 0);
  CHECK(waiter->error());
  REQUIRE(waiter->result());  // or its join could not wait until nothing touches the gradients any more
  CHECK(waiter->result()->reduced.size() == 1);
}

TEST_CASE("sync_server: after close every call fails at the sender, and waiters are answered") {
  Group group;
  group.begin(0, {0});
  group.submit(0, 0, {2});
  const auto waiter = group.server.collective_sync({0, 1, 1});
  group.server.close();
  CHECK(waiter->done());
  check_names(text_of(waiter->error()), {"closed"});
  CHECK_THROWS_AS(group.begin(1, {0}), SyncError);
  check_names(group.error_of_sync(1), {"closed"});
  group.server.close();
}

TEST_CASE("sync_server: many devices post at once and every round is answered") {
  constexpr std::size_t kDevices = 8;
  Group group(std::make_unique<LocalCommunicator>(), kDevices);
  run_devices(kDevices, [&](std::size_t d) {
    const auto member = static_cast<MemberIndex>(d);
    for (std::int64_t generation = 1; generation <= 200; ++generation) {
      const Ids ids = (generation + member) % 3 == 0 ? Ids{1} : Ids{0, 1};
      group.begin(member, ids, generation);
      for (const std::uint32_t id : ids)
        group.submit(member, id, id == 0 ? Shape{2} : Shape{3}, DType::f64, generation);
      const auto waiter = group.server.collective_sync({member, 1, generation});
      group.server.await(*waiter, member);
      REQUIRE_MESSAGE(!waiter->error(), text_of(waiter->error()));
      CHECK(waiter->result()->generation == generation);
      for (const auto& reduced : waiter->result()->reduced) {
        const std::shared_ptr<CollectiveTask> task[] = {reduced.task};
        join_tasks(cpu(static_cast<std::uint16_t>(d)), task);
        for (const GradientLayout::Place& place : reduced.bucket)
          if (place.parameter.value == 1)
            CHECK(gradient_in(reduced.results[d], reduced.bucket, place, {3}).to_vector<double>() ==
                  std::vector<double>(3, (1 + kDevices) / 2.0));
      }
    }
  });
}

TEST_CASE("sync_server: a state copy that fails while re-forming is told to all, and the group after it forms") {
  Group group;
  bool fails = true;
  group.server.on_reformed([&](const auto&) {
    if (fails) throw std::runtime_error("copy burnt");
    return nullptr;
  });
  group.begin(0, {0});
  group.server.device_failed({1, 1, 1}, std::make_exception_ptr(std::runtime_error("burnt")));
  const auto rejoin = [&] {
    const auto first = group.server.join_group(0, group.server.group_number() + 1, 5);
    const auto second = group.server.join_group(1, group.server.group_number() + 1, 4);
    group.server.await(*first, 0);
    group.server.await(*second, 1);
    return std::pair{text_of(first->error()), text_of(second->error())};
  };
  const auto [first, second] = rejoin();
  check_names(first, {"copy burnt"});
  check_names(second, {"copy burnt"});
  fails = false;
  const auto [third, fourth] = rejoin();
  CHECK(third.empty());
  CHECK(fourth.empty());
  CHECK(group.server.group_number() == 3);
}

TEST_CASE("sync_server: in a group without a model, every device hears at once that a collective cannot be launched") {
  const auto devices = test_devices(2);
  DistributedSyncServer server(GroupMembers(members_of(devices)), std::make_unique<BrokenCollectives>(), {});
  std::vector<std::shared_ptr<CollectiveWaiter>> waiters;
  for (MemberIndex member = 0; member < 2; ++member) {
    PostCollective message;
    message.member = member;
    message.number = 1;
    message.call = {.kind = CollectiveKind::all_reduce, .shape = {2}};
    message.input = Array::empty({2}, DType::f32, devices[member]);
    waiters.push_back(server.post_collective(std::move(message)));
  }
  for (const auto& waiter : waiters) {
    REQUIRE(waiter->done());
    CHECK_THROWS_WITH(std::rethrow_exception(waiter->error()), "link down");
  }
}

TEST_SUITE_END();
