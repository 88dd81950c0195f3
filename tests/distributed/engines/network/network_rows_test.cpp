// SPDX-License-Identifier: Apache-2.0
// Sums of sparse gradients' rows between ranks that are threads, over connections.
#include <tutti/backend/error.h>
#include <tutti/backend/random.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/engines/network/network_group.h>
#include <tutti/tests/distributed/engines/network/relay.h>

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr std::int64_t kRows = 300;

/// Number of the rows of each part of a device; none: it does not contribute.
using Parts = std::vector<std::int64_t>;

/// A reduction of a table's gradient, made from a seed: a device reads many of its rows more than once.
struct RandomRows {
  std::uint64_t seed = 1;
  std::vector<Parts> parts;  // by number
  DType dtype = DType::f32;
  std::int64_t columns = 5;

  SparseReduction::Contribution contribution(std::size_t number, Member member) const {
    Generator random(seed, number);
    std::vector<SparseGradient> made;
    for (const std::int64_t count : parts[number]) {
      std::vector<std::int64_t> indices;
      for (std::int64_t i = 0; i < count; ++i) indices.push_back(static_cast<std::int64_t>(random.below(kRows)));
      made.push_back({Array::from(indices, {count}, member.device),
                      random.normal({count, columns}, DType::f32, member.device).cast(dtype),
                      {kRows, columns}});
    }
    synchronize(member.device);
    return {member, number, {std::move(made)}};
  }
  /// The request of some devices, of which all receive.
  SparseReduction request(std::size_t first, std::size_t count, std::span<const Member> members) const {
    SparseReduction request{.parameter = {"table", {kRows, columns}, dtype},
                            .contributions = {},
                            .receivers = {},
                            .ready = {},
                            .denominator = 3.0,
                            .result = std::make_shared<SparseResult>(),
                            .world = world_of(members)};
    for (std::size_t number = first; number < first + count; ++number) {
      if (!parts[number].empty()) request.contributions.push_back(contribution(number, members[number]));
      request.receivers.push_back(members[number].device);
    }
    request.result->receives.resize(count, true);
    request.result->gradients.resize(count);
    return request;
  }
  /// The result with all devices in one process.
  SparseGradient expected() const {
    std::vector<Member> members;
    for (std::size_t number = 0; number < parts.size(); ++number)
      members.emplace_back(cpu(static_cast<std::uint16_t>(number)));
    const SparseReduction all = request(0, parts.size(), members);
    tutti::reduce_sparse(all);
    return all.result->gradients.front().front();
  }
};

void check_same(const SparseResult& result, const SparseGradient& expected) {
  for (const auto& gradients : result.gradients) {
    if (gradients.size() != 1) throw std::runtime_error("a device has no result");
    if (bytes_of(gradients.front().indices) != bytes_of(expected.indices) ||
        bytes_of(gradients.front().rows) != bytes_of(expected.rows))
      throw std::runtime_error("other bits");
  }
}

/// All ranks of a group reduce these, all on their way at once.
void check_all(NetworkGroup group, const std::vector<RandomRows>& reductions) {
  std::vector<SparseGradient> expected;
  for (const RandomRows& each : reductions) expected.push_back(each.expected());
  group.run_well([&](std::size_t rank, NetworkCommunicator& communicator) {
    std::vector<std::shared_ptr<CollectiveTask>> tasks;
    std::vector<std::shared_ptr<SparseResult>> results;
    for (const RandomRows& each : reductions) {
      SparseReduction request = each.request(group.first_of(rank), group.devices[rank], group.members);
      results.push_back(request.result);
      tasks.push_back(communicator.reduce_sparse(std::move(request)));
    }
    join_tasks(cpu(0), tasks);
    for (std::size_t i = 0; i < results.size(); ++i) check_same(*results[i], expected[i]);
  });
}

void check_texts(const std::vector<std::string>& errors, const std::string& text) {
  for (const std::string& error : errors) CHECK_MESSAGE(error.find(text) != std::string::npos, error);
}

}  // namespace

TEST_CASE("network, rows: any split of devices has the bits of one process, whatever they read") {
  std::vector<RandomRows> reductions;
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
    for (const std::vector<Parts>& parts : {std::vector<Parts>{{40}, {7, 90}, {1}, {300}},
                                            {{}, {50, 0, 3}, {}, {20}},
                                            {{2}, {}, {}, {}},
                                            {{0}, {0}, {}, {0}},
                                            {{}, {}, {}, {}}})
      reductions.push_back({reductions.size(), parts, dtype});
  for (const std::vector<std::size_t>& split : {std::vector<std::size_t>{4}, {2, 2}, {1, 1, 1, 1}, {1, 3}, {3, 1}})
    for (const bool encrypt : {false, true}) {
      CAPTURE(split.size());
      check_all(NetworkGroup(split, small_frames(encrypt)), reductions);
    }
}

TEST_CASE("network, rows: more of them than the window holds go in pieces, and few beside many") {
  for (const std::size_t bytes : {8192, 10'000, 1 << 20}) {
    NetworkOptions options = small_frames();
    options.piece_bytes = bytes;
    options.window_bytes = 1;  // two pieces
    check_all(NetworkGroup({1, 2}, options),
              {{1, {{30'000}, {3}, {}}}, {2, {{}, {20'000, 10'000}, {1}}}, {3, {{5}, {5}, {5}}}});
  }
}

TEST_CASE("network, rows: a table whose rows have no elements, and wide ones") {
  for (const std::int64_t columns : {0, 1, 9000}) {
    CAPTURE(columns);
    check_all(NetworkGroup({1, 1}), {{1, {{9}, {4}}, DType::f32, columns}});
  }
}

TEST_CASE("network, rows: they keep their place among other reductions, and devices that receive none get none") {
  NetworkGroup group({1, 1});
  const RandomRows rows{1, {{100}, {}}};
  const SparseGradient expected = rows.expected();
  group.run_well([&](std::size_t rank, NetworkCommunicator& communicator) {
    for (int i = 0; i < 20; ++i) {
      std::vector<std::shared_ptr<CollectiveTask>> tasks;
      const Array slice = Array::full({3000}, static_cast<double>(rank + 1), DType::f32, cpu(0));
      synchronize(cpu(0));
      SparseReduction request = rows.request(rank, 1, group.members);
      const auto result = request.result;
      result->receives[0] = rank == 0;
      tasks.push_back(communicator.reduce_sparse(std::move(request)));
      tasks.push_back(communicator.all_reduce({.slices = {{slice, true}}, .ready = {}}));
      join_tasks(cpu(0), tasks);
      if (slice.to_vector<float>() != std::vector<float>(3000, 3.0F)) throw std::runtime_error("another sum");
      if (rank == 0) check_same(*result, expected);
      if (rank == 1 && !result->gradients[0].empty()) throw std::runtime_error("who receives nothing has something");
    }
    communicator.set_enabled(false);
    CHECK(communicator.reduce_sparse(rows.request(rank, 1, group.members))->finished());
  });
}

TEST_CASE("network, rows: an index out of range is an error on all ranks that names the device") {
  NetworkGroup group({1, 1});
  check_texts(group.run([&](std::size_t rank, NetworkCommunicator& communicator) {
    SparseReduction request = RandomRows{1, {{3}, {3}}}.request(rank, 1, group.members);
    if (rank == 1)
      request.contributions[0].parts = {{Array::from(std::vector<std::int64_t>{1, kRows}, {2}, cpu(0)),
                                         Array::zeros({2, 5}, DType::f32, cpu(0)),
                                         {kRows, 5}}};
    synchronize(cpu(0));
    communicator.reduce_sparse(std::move(request))->join(cpu(0));
  }),
              "rank 1 cpu:0 submitted parameter \"table\" with index 300 of 300 rows");
}

TEST_CASE("network, rows: requests that differ are an error on all ranks, with both") {
  NetworkGroup group({1, 1});
  const auto errors_if = [&](const std::function<std::shared_ptr<CollectiveTask>(NetworkCommunicator&)>& other) {
    return group.run([&](std::size_t rank, NetworkCommunicator& communicator) {
      if (rank == 1) return other(communicator)->join(cpu(0));
      communicator.reduce_sparse(RandomRows{1, {{3}, {3}}}.request(0, 1, group.members))->join(cpu(0));
    });
  };
  check_texts(
      errors_if([&](NetworkCommunicator& communicator) {
        return communicator.reduce_sparse(RandomRows{1, {{3}, {3}}, DType::f32, 6}.request(1, 1, group.members));
      }),
      "rank 0 has 5 elements, rank 1 has 6 elements");
  check_texts(errors_if([&](NetworkCommunicator& communicator) {
                const Array slice = Array::zeros({5}, DType::f32, cpu(0));
                synchronize(cpu(0));
                return communicator.all_reduce({.slices = {{slice, true}}, .ready = {}});
              }),
              "rank 0 has rows of a sparse gradient, rank 1 has an all_reduce");
}

TEST_CASE("network, rows: a failure on one rank is all ranks' error") {
  struct Failed final : EventState {
    bool ready() const override { return true; }
    void synchronize() override { throw std::runtime_error("a kernel went wrong"); }
  };
  NetworkGroup group({1, 1});
  const auto errors = group.run([&](std::size_t rank, NetworkCommunicator& communicator) {
    SparseReduction request = RandomRows{1, {{3}, {3}}}.request(rank, 1, group.members);
    if (rank == 1) request.ready.emplace_back(std::make_shared<Failed>());
    communicator.reduce_sparse(std::move(request))->join(cpu(0));
  });
  CHECK(errors[1] == "a kernel went wrong");
  CHECK_MESSAGE(errors[0].find("epoch 1 has ended: rank 1: a kernel went wrong") != std::string::npos, errors[0]);
}

TEST_CASE("network, rows: who is aborted amid the others' rows wakes, and so does who aborts") {
  struct Late final : EventState {
    bool ready() const override { return there.load(); }
    void synchronize() override { there.wait(false); }
    std::atomic<bool> there{false};
  };
  const RandomRows many{1, {{100'000}, {100'000}, {100'000}}};
  for (const bool everybody_comes : {false, true}) {
    NetworkGroup group({1, 1, 1});
    std::latch waiting(3);
    const auto errors = group.run([&](std::size_t rank, NetworkCommunicator& communicator) {
      SparseReduction request = many.request(rank, 1, group.members);
      const auto late = std::make_shared<Late>();
      if (rank == 2) request.ready.emplace_back(late);
      std::shared_ptr<CollectiveTask> task;
      if (rank != 2 || everybody_comes) task = communicator.reduce_sparse(std::move(request));
      communicator.crew().help(cpu(0));  // rows of the others go
      waiting.arrive_and_wait();
      if (rank == 2) communicator.abort("rank 7 was killed");
      late->there = true;
      late->there.notify_all();
      if (task) task->join(cpu(0));
    });
    CHECK(errors[2].empty() != everybody_comes);
    for (const std::size_t rank : {0, 1})
      CHECK_MESSAGE(errors[rank].find("epoch 1 has ended: rank 7 was killed") != std::string::npos, errors[rank]);
  }
}

// Rank 1 may have all that it needs, and its rows with the kernel.
TEST_CASE("network, rows: who is cut off amid its rows is named by who needs them") {
  Relay relay({.cut_at = 1 << 20});
  NetworkGroup group({1, 1});
  group.change_places = [&relay](std::vector<NetworkMeeting::Place>& places) {
    relay.lead_to(places[0].port);
    places[0].port = relay.port();
  };
  const RandomRows many{1, {{100'000}, {100'000}}};
  const auto errors = group.run([&](std::size_t rank, NetworkCommunicator& communicator) {
    communicator.reduce_sparse(many.request(rank, 1, group.members))->join(cpu(0));
  });
  CHECK_MESSAGE(errors[0].find("the connection of rank 0 to rank 1 has ended") != std::string::npos, errors[0]);
}

// What lies in the sockets, some 10 MB at most, is on its way for less than the patience.
TEST_CASE("network, rows: those that take longer than the patience are waited for as long as they come") {
  Relay relay({.delay = std::chrono::milliseconds(20)});  // 64 KiB at once: 8 s and more for 28 MB
  NetworkOptions options = small_frames();
  options.patience = std::chrono::seconds(6);
  NetworkGroup group({1, 1}, options);
  group.change_places = [&relay](std::vector<NetworkMeeting::Place>& places) {
    relay.lead_to(places[0].port);
    places[0].port = relay.port();
  };
  check_all(group, {{1, {{}, {1'000'000}}}});
}

namespace {

/// A request that says what it wants of its rows.
struct Claim final : NetworkExchange {
  Claim(const Announcement& claimed, std::size_t piece)
      : NetworkExchange(Sequence::round, 1, claimed, 2, 1, false), piece_(piece) {}
  std::size_t bytes_from(std::size_t, std::size_t) const override { return 0; }
  std::vector<std::span<const std::byte>> slices_for(std::size_t, std::size_t) const override { return {piece_}; }
  std::span<std::byte> results_of(std::size_t, std::size_t) const override { return {}; }
  std::vector<std::byte> piece_;
};

/// What rank 0, which has no rows, throws when rank 1 claims that a device has so many rows, and sends a piece.
std::string error_when_told(std::uint32_t device, std::uint64_t rows, std::size_t piece) {
  const std::vector<Member> members = members_of_ranks(2, 1);
  const std::array<DataDoor, 2> doors{DataDoor("127.0.0.1"), DataDoor("127.0.0.1")};
  NetworkMeeting meeting{.key = key_of(7), .epoch = 1, .places = {}};
  for (int rank = 0; rank < 2; ++rank)
    meeting.places.push_back({rank, "127.0.0.1", doors[static_cast<std::size_t>(rank)].port()});
  NetworkOptions options = small_frames();
  options.patience = std::chrono::milliseconds(1500);
  std::latch ended(2);
  const auto errors = errors_of_devices(2, [&](std::size_t rank) {
    NetworkMeeting own = meeting;
    own.rank = static_cast<int>(rank);
    if (rank == 0) {
      NetworkCommunicator communicator(own, doors[0], members, options);
      std::exception_ptr error;
      try {
        communicator.reduce_sparse(RandomRows{1, {{}, {}}, DType::f32, 2}.request(0, 1, members))->join(cpu(0));
      } catch (...) {
        error = std::current_exception();
      }
      ended.arrive_and_wait();
      if (error) std::rethrow_exception(error);
      return;
    }
    Announcement claimed;
    claimed.kind = Announcement::Kind::rows;
    claimed.elements = 2;
    claimed.denominator = 3.0;
    claimed.slices = 1;
    claimed.slice[0] = {0, device, true, rows};
    NetworkLines lines(connect_lines(own, doors[1], options.piece_bytes, true, std::chrono::seconds(30)),
                       {.ranks = {0, 1},
                        .rank = 1,
                        .epoch = 1,
                        .piece_bytes = options.piece_bytes,
                        .window_pieces = 2,
                        .patience = std::chrono::seconds(30)});
    const auto claim = std::make_shared<Claim>(claimed, piece);
    lines.open(claim);
    lines.slices_ready(*claim, 1);
    ended.arrive_and_wait();
  });
  CHECK(errors[1] == "");
  return errors[0];
}

void check_told(std::uint32_t device, std::uint64_t rows, std::size_t piece, const std::string& text) {
  const std::string error = error_when_told(device, rows, piece);
  CHECK_MESSAGE(error.find(text) != std::string::npos, error);
}

}  // namespace

TEST_CASE("network, rows: what a process says of its rows is not believed, and takes no memory") {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 36U;  // of two f32 each, and an index: 1 TiB
  check_told(1, kMost + 1, 64, "rank 1 says that device 1 of 2 has 68719476737 rows of parameter \"table\"");
  check_told(1, ~std::uint64_t{0}, 64, "rank 1 says that device 1 of 2 has 18446744073709551615 rows");
  check_told(0, 3, 64, "rank 1 says that device 0 of 2 has 3 rows");
  check_told(9, 3, 64, "rank 1 says that device 9 of 2 has 3 rows");
  check_told(1, 3, 65, "rank 1 sent what nobody waits for");
  check_told(1, 10'000, 128, "rank 1 sent what nobody waits for");
  check_told(1, 0, 64, "rank 1 sent what nobody waits for");
  check_told(1, kMost, 16 << 10, "rank 0 waited 1500 ms: rank 1 has not come to reduction 1");
}

TEST_SUITE_END();
