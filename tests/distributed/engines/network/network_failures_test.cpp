// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/distributed/engines/network/network_group.h>

#include <doctest/doctest.h>

#include <chrono>
#include <latch>
#include <stdexcept>
#include <thread>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

using Clock = std::chrono::steady_clock;

AllReduceRequest request_of_ones(std::int64_t count, DType dtype = DType::f32) {
  const Array slice = Array::full({count}, 1.0, dtype, cpu(0));
  synchronize(cpu(0));
  return {.slices = {{slice, true}}, .ready = {}, .parameter = "weight"};
}

void check_all(const std::vector<std::string>& errors, const std::string& text) {
  for (const std::string& error : errors) CHECK_MESSAGE(error.find(text) != std::string::npos, error);
}

// What each of two ranks throws when rank 1's request was changed.
std::vector<std::string> errors_of(const std::function<void(AllReduceRequest&)>& change) {
  return NetworkGroup({1, 1}).run([&](std::size_t rank, NetworkCommunicator& communicator) {
    communicator.all_reduce(request_of_ones(10))->join(cpu(0));
    AllReduceRequest request = request_of_ones(10);
    if (rank == 1) change(request);
    communicator.all_reduce(std::move(request))->join(cpu(0));
  });
}

}  // namespace

TEST_CASE("network: requests that differ fail on every rank, with both values") {
  check_all(errors_of([](AllReduceRequest& request) { request = request_of_ones(11); }),
            "reduction 2 (\"weight\") is not the same for all: rank 0 has 10 elements, rank 1 has 11 elements");
  check_all(errors_of([](AllReduceRequest& request) { request = request_of_ones(1'000'000); }),
            "rank 0 has 10 elements, rank 1 has 1000000 elements");
  check_all(errors_of([](AllReduceRequest& request) { request = request_of_ones(10, DType::f64); }),
            "rank 0 has f32, rank 1 has f64");
  check_all(errors_of([](AllReduceRequest& request) { request.wire = GradientWire::bf16; }),
            "rank 0 has native as its wire, rank 1 has bf16 as its wire");
  check_all(errors_of([](AllReduceRequest& request) { request.denominator = 3.0; }),
            "rank 0 has 1 as its denominator, rank 1 has 3 as its denominator");
  check_all(errors_of([](AllReduceRequest& request) { request.wire_scale = 2.0; }), "as its wire's scale");
}

TEST_CASE("network: another collective than the others' is told") {
  check_all(NetworkGroup({1, 1}).run([](std::size_t rank, NetworkCommunicator& communicator) {
    CollectiveRequest request;
    request.inputs.resize(2);
    request.outputs.resize(2);
    request.inputs[rank] = request.outputs[rank] = Array::zeros({8}, DType::f32, cpu(0));
    synchronize(cpu(0));
    request.parts = {{8, {{rank, 0}}, {{1 - rank, 0}}}};
    communicator.collective(std::move(request))->join(cpu(0));
  }),
            "as the hash of its parts");
  check_all(NetworkGroup({1, 1}).run([](std::size_t rank, NetworkCommunicator& communicator) {
    if (rank == 0) return communicator.all_reduce(request_of_ones(8))->join(cpu(0));
    CollectiveRequest request;
    request.inputs = request.outputs = {Array(), Array::zeros({8}, DType::f32, cpu(0))};
    request.sequence = Sequence::round;
    communicator.collective(std::move(request))->join(cpu(0));
  }),
            "rank 0 has an all_reduce, rank 1 has a collective");
}

TEST_CASE("network: a failure on one rank is all ranks' error") {
  struct Failed final : EventState {
    bool ready() const override { return true; }
    void synchronize() override { throw std::runtime_error("a kernel went wrong"); }
  };
  const auto errors = NetworkGroup({1, 1, 1}).run([](std::size_t rank, NetworkCommunicator& communicator) {
    AllReduceRequest request = request_of_ones(1000);
    if (rank == 1) request.ready.emplace_back(std::make_shared<Failed>());
    const auto task = communicator.all_reduce(std::move(request));
    const auto later = communicator.all_reduce(request_of_ones(10));
    try {
      task->join(cpu(0));
    } catch (const std::exception&) {
      CHECK_THROWS_WITH_AS(later->join(cpu(0)), doctest::Contains("rank 1: a kernel went wrong"), SyncError);
      throw;
    }
  });
  CHECK(errors[1] == "a kernel went wrong");
  for (const std::size_t rank : {0, 2})
    CHECK_MESSAGE(errors[rank].find("epoch 1 has ended: rank 1: a kernel went wrong") != std::string::npos,
                  errors[rank]);
}

TEST_CASE("network: the deadline names the ranks that have not come, on all that have") {
  NetworkOptions options = small_frames();
  options.patience = std::chrono::milliseconds(1000);
  std::latch ended(4);
  const auto errors = NetworkGroup({1, 1, 1, 1}, options).run([&](std::size_t rank, NetworkCommunicator& communicator) {
    // Those that do not come stay, so that no end of theirs tells anybody.
    if (rank % 2 == 1) return ended.arrive_and_wait();
    std::exception_ptr error;
    try {
      communicator.all_reduce(request_of_ones(10))->join(cpu(0));
    } catch (...) {
      error = std::current_exception();
    }
    ended.arrive_and_wait();
    if (error) std::rethrow_exception(error);
  });
  for (const std::size_t rank : {0, 2})
    CHECK_MESSAGE(errors[rank].find("waited 1000 ms: rank 1, 3 has not come to reduction 1") != std::string::npos,
                  errors[rank]);
}

TEST_CASE("network: who is aborted wakes, whatever it waits for, also amid much data") {
  for (const std::int64_t count : {100, 4'000'000}) {
    for (const bool everybody_comes : {false, true}) {
      std::latch waiting(3);
      const auto errors = NetworkGroup({1, 1, 1}).run([&](std::size_t rank, NetworkCommunicator& communicator) {
        std::shared_ptr<CollectiveTask> task;
        if (rank != 2 || everybody_comes) task = communicator.all_reduce(request_of_ones(count));
        if (rank == 2) communicator.crew().help(cpu(0));
        waiting.arrive_and_wait();
        if (rank == 2) {
          std::this_thread::sleep_for(std::chrono::milliseconds(30));  // others sleep by then
          communicator.abort("rank 7 was killed");
        }
        if (task) task->join(cpu(0));
      });
      CHECK(errors[2].empty() != everybody_comes);
      for (const std::size_t rank : {0, 1})
        CHECK_MESSAGE(errors[rank].find("epoch 1 has ended: rank 7 was killed") != std::string::npos, errors[rank]);
    }
  }
}

TEST_CASE("network: after an abort everything fails at once, and a new group works") {
  NetworkGroup group({1, 1});
  group.run_well([](std::size_t, NetworkCommunicator& communicator) {
    communicator.abort("first");
    communicator.abort("second");
    CHECK_THROWS_WITH_AS(communicator.all_reduce(request_of_ones(10))->join(cpu(0)), doctest::Contains("ended: first"),
                         SyncError);
  });
  group.run_well(
      [&](std::size_t rank, NetworkCommunicator& communicator) { reduce_many(communicator, group.devices, rank, 5); });
}

TEST_CASE("network: a process that has taken leave is named by who needs it") {
  const auto errors = NetworkGroup({1, 1}).run([](std::size_t rank, NetworkCommunicator& communicator) {
    communicator.all_reduce(request_of_ones(100'000))->join(cpu(0));
    if (rank == 0) communicator.all_reduce(request_of_ones(10))->join(cpu(0));
  });
  CHECK(errors[1].empty());
  CHECK_MESSAGE(errors[0].find("rank 1 has gone, and has not come to reduction 2") != std::string::npos, errors[0]);
}

TEST_CASE("network: options and groups that cannot be are refused") {
  const DataDoor door("127.0.0.1");
  const NetworkMeeting alone{.key = key_of(1), .epoch = 1, .places = {{0, "127.0.0.1", door.port()}}, .rank = 0};
  CHECK_THROWS_WITH_AS(NetworkCommunicator(alone, door, members_of_ranks(1, 1), {.piece_bytes = 100}),
                       doctest::Contains("pieces of 100 bytes"), SyncError);
  CHECK_THROWS_WITH_AS(NetworkCommunicator(alone, door, members_of_ranks(1, 17)),
                       doctest::Contains("rank 0 has more than 16 devices"), SyncError);
  CHECK_THROWS_WITH_AS(NetworkCommunicator(alone, door, {}), doctest::Contains("rank 0 has no device"), SyncError);
  CHECK_THROWS_WITH_AS(NetworkCommunicator(alone, door, members_of_ranks(2, 1)),
                       doctest::Contains("rank 1 is no process of the meeting"), SyncError);
  CHECK_THROWS_WITH_AS(DataDoor("0.0.0.0"), doctest::Contains("stands for all"), Error);
  CHECK_THROWS_WITH_AS(DataDoor("::"), doctest::Contains("stands for all"), Error);
  CHECK_THROWS_WITH_AS(DataDoor("node7"), doctest::Contains("no address"), Error);
  CHECK_THROWS_WITH_AS(DataDoor("192.0.2.1"), doctest::Contains("cannot listen at 192.0.2.1"), Error);
}

TEST_SUITE_END();
