// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/error.h>
#include <tutti/distributed/collectives/process_members.h>
#include <tutti/distributed/communicator.h>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;

namespace {

// Ranks 2 and 5, by turns.
const std::vector<Member> kMembers{{2, cpu(0)}, {5, cpu(0)}, {2, cpu(1)}, {5, cpu(1)}, {5, cpu(2)}};

AllReduceRequest request_of(const std::vector<Device>& devices, std::vector<std::size_t> numbers) {
  AllReduceRequest request{.slices = {}, .ready = {}, .numbers = std::move(numbers)};
  for (const Device device : devices) request.slices.push_back({Array::full({1}, 1.0, DType::f32, device)});
  return request;
}

}  // namespace

TEST_CASE("process members: each device's process, and the numbers of a process's own slices") {
  const ProcessMembers members("engine", kMembers, {2, 5}, 5);
  CHECK(members.place_of(0) == 0);
  CHECK(members.place_of(4) == 1);
  CHECK(members.most_slices() == 3);
  AllReduceRequest all = request_of({cpu(0), cpu(1), cpu(2)}, {});
  members.number_slices(all);
  CHECK(all.numbers == std::vector<std::size_t>{1, 3, 4});
  AllReduceRequest some = request_of({cpu(2)}, {4});
  CHECK_NOTHROW(members.number_slices(some));
  CHECK_NOTHROW(members.require_all(std::vector<Member>{kMembers[0], kMembers[4]}));
}

TEST_CASE("process members: what is wrong is named") {
  const auto made = [](const std::vector<Member>& all, std::vector<int> ranks, int rank) {
    ProcessMembers("engine", all, std::move(ranks), rank);
  };
  CHECK_THROWS_WITH_AS(made(kMembers, {2, 4}, 2), "[engine] rank 5 is no process of the meeting", SyncError);
  CHECK_THROWS_WITH_AS(made(kMembers, {2, 3, 5}, 2), "[engine] rank 3 has no device", SyncError);
  CHECK_THROWS_WITH_AS(made({}, {}, 1), "[engine] rank 1 has no device", SyncError);
  CHECK_THROWS_WITH_AS(made({{0, Device{DeviceKind::cuda, 0}}}, {0}, 0), "[engine] cuda:0 is no CPU", SyncError);
  CHECK_THROWS_WITH_AS(made(std::vector<Member>(17, Member(0, cpu(0))), {0}, 0),
                       "[engine] rank 0 has more than 16 devices", SyncError);
  const ProcessMembers members("engine", kMembers, {2, 5}, 5);
  CHECK_THROWS_WITH_AS((void)members.place_of(5), "[engine] a group of 5 devices has no device 5", SyncError);
  AllReduceRequest two = request_of({cpu(0), cpu(1)}, {});
  CHECK_THROWS_WITH_AS(members.number_slices(two), "[all_reduce] 2 slices for the 3 devices of rank 5", SyncError);
  for (const std::size_t other : {std::size_t{0}, std::size_t{3}}) {  // another process's, another device's
    AllReduceRequest request = request_of({cpu(0)}, {other});
    CHECK_THROWS_WITH_AS(members.number_slices(request), doctest::Contains("says that it is number"), SyncError);
  }
  CHECK_THROWS_WITH_AS(members.require_all(std::vector<Member>{kMembers[0]}), doctest::Contains("rank 5 has left"),
                       SyncError);
}

TEST_SUITE_END();
