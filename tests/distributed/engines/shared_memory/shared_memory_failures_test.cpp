// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/distributed/engines/shared_memory/rank_group.h>

#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <latch>
#include <stdexcept>
#include <thread>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

using Clock = std::chrono::steady_clock;

AllReduceRequest plain_request(std::int64_t count, DType dtype = DType::f32) {
  const Array slice = Array::full({count}, 1.0, dtype, cpu(0));
  synchronize(cpu(0));
  return {.slices = {{slice, true}}, .ready = {}, .parameter = "weight"};
}

// What each of two ranks throws when rank 1's request was changed.
std::vector<std::string> errors_of(const std::function<void(AllReduceRequest&)>& change) {
  return run_ranks(2, 1, small_pieces(), Mapping::own, [&](std::size_t rank, SharedMemoryCommunicator& communicator) {
    communicator.all_reduce(plain_request(10))->join(cpu(0));
    AllReduceRequest request = plain_request(10);
    if (rank == 1) change(request);
    communicator.all_reduce(std::move(request))->join(cpu(0));
  });
}

void check_both(const std::vector<std::string>& errors, const std::string& text) {
  for (const std::string& error : errors) {
    CHECK(error.find(text) != std::string::npos);
    if (error.find(text) == std::string::npos) MESSAGE(error);
  }
}

}  // namespace

TEST_CASE("shared_memory: requests that differ fail on every rank, with both values") {
  check_both(errors_of([](AllReduceRequest& request) { request = plain_request(11); }),
             "reduction 2 (\"weight\") is not the same for all: rank 0 has 10 elements, rank 1 has 11 elements");
  check_both(errors_of([](AllReduceRequest& request) { request = plain_request(100'000); }),
             "rank 0 has 10 elements, rank 1 has 100000 elements");
  check_both(errors_of([](AllReduceRequest& request) { request = plain_request(10, DType::f64); }),
             "rank 0 has f32, rank 1 has f64");
  check_both(errors_of([](AllReduceRequest& request) { request.wire = GradientWire::bf16; }),
             "rank 0 has native as its wire, rank 1 has bf16 as its wire");
  check_both(errors_of([](AllReduceRequest& request) { request.denominator = 3.0; }),
             "rank 0 has 1 as its denominator, rank 1 has 3 as its denominator");
  check_both(errors_of([](AllReduceRequest& request) { request.wire_scale = 2.0; }), "as its wire's scale");
}

TEST_CASE("shared_memory: another collective than the others' is told") {
  const auto errors =
      run_ranks(2, 1, small_pieces(), Mapping::own, [](std::size_t rank, SharedMemoryCommunicator& communicator) {
        CollectiveRequest request;
        request.inputs.resize(2);
        request.outputs.resize(2);
        request.inputs[rank] = request.outputs[rank] = Array::zeros({8}, DType::f32, cpu(0));
        synchronize(cpu(0));
        request.parts = {{8, {{rank, 0}}, {{1 - rank, 0}}}};
        communicator.collective(std::move(request))->join(cpu(0));
      });
  check_both(errors, "as the hash of its parts");
  check_both(run_ranks(2, 1, small_pieces(), Mapping::own,
                       [](std::size_t rank, SharedMemoryCommunicator& communicator) {
                         if (rank == 0) return communicator.all_reduce(plain_request(8))->join(cpu(0));
                         CollectiveRequest request;
                         request.inputs = request.outputs = {Array(), Array::zeros({8}, DType::f32, cpu(0))};
                         request.sequence = Sequence::round;
                         communicator.collective(std::move(request))->join(cpu(0));
                       }),
             "rank 0 has an all_reduce, rank 1 has a collective");
}

TEST_CASE("shared_memory: a failure on one rank is all ranks' error") {
  struct Failed final : EventState {
    bool ready() const override { return true; }
    void synchronize() override { throw std::runtime_error("a kernel went wrong"); }
  };
  const auto errors =
      run_ranks(3, 1, small_pieces(), Mapping::own, [](std::size_t rank, SharedMemoryCommunicator& communicator) {
        AllReduceRequest request = plain_request(1000);
        if (rank == 1) request.ready.emplace_back(std::make_shared<Failed>());
        const auto task = communicator.all_reduce(std::move(request));
        const auto later = communicator.all_reduce(plain_request(10));
        try {
          task->join(cpu(0));
        } catch (const std::exception& error) {
          CHECK_THROWS_WITH_AS(later->join(cpu(0)), doctest::Contains("rank 1: a kernel went wrong"), SyncError);
          throw;
        }
      });
  CHECK(errors[1] == "a kernel went wrong");
  for (const std::size_t rank : {0, 2})
    CHECK(errors[rank].find("epoch 1 has ended: rank 1: a kernel went wrong") != std::string::npos);
}

TEST_CASE("shared_memory: the deadline names the ranks that have not come, on all that have") {
  SharedMemoryOptions options = small_pieces();
  options.patience = std::chrono::milliseconds(300);
  std::latch ended(4);
  const auto start = Clock::now();
  const auto errors =
      run_ranks(4, 1, options, Mapping::own, [&](std::size_t rank, SharedMemoryCommunicator& communicator) {
        // Those that do not come stay, so that no end of theirs tells anybody.
        if (rank % 2 == 1) return ended.arrive_and_wait();
        std::exception_ptr error;
        try {
          communicator.all_reduce(plain_request(10))->join(cpu(0));
        } catch (...) {
          error = std::current_exception();
        }
        ended.arrive_and_wait();
        if (error) std::rethrow_exception(error);
      });
  for (const std::size_t rank : {0, 2}) {
    CHECK(errors[rank].find("waited 300 ms: rank 1, 3 has not come to reduction 1") != std::string::npos);
    if (errors[rank].find("waited 300 ms") == std::string::npos) MESSAGE(errors[rank]);
  }
  CHECK(Clock::now() - start < std::chrono::seconds(30));
}

TEST_CASE("shared_memory: who is aborted wakes, whatever it waits for") {
  for (const bool everybody_arrives : {false, true}) {
    std::latch arrived(3);  // rank 2 comes alone, so that its share is left
    std::latch waiting(3);
    std::atomic<Clock::rep> aborted{0};
    const auto errors =
        run_ranks(3, 1, small_pieces(), Mapping::own, [&](std::size_t rank, SharedMemoryCommunicator& communicator) {
          std::shared_ptr<CollectiveTask> task;
          if (rank == 2 && everybody_arrives) {
            task = communicator.all_reduce(plain_request(5000));
            communicator.crew().help(cpu(0));
          }
          arrived.arrive_and_wait();
          if (rank != 2) task = communicator.all_reduce(plain_request(5000));
          waiting.arrive_and_wait();
          if (rank == 2) {
            std::this_thread::sleep_for(std::chrono::milliseconds(50));  // others sleep by then
            aborted = Clock::now().time_since_epoch().count();
            communicator.abort("rank 7 was killed");
          }
          if (task) task->join(cpu(0));
        });
    CHECK(errors[2].empty() != everybody_arrives);
    for (const std::size_t rank : {0, 1})
      CHECK(errors[rank].find("epoch 1 has ended: rank 7 was killed") != std::string::npos);
    CHECK(Clock::now().time_since_epoch().count() - aborted.load() < 10'000'000'000);
  }
}

TEST_CASE("shared_memory: after an abort everything fails at once, and a new group works") {
  run_good_ranks(2, 1, small_pieces(), Mapping::own, [](std::size_t, SharedMemoryCommunicator& communicator) {
    communicator.abort("first");
    communicator.abort("second");
    CHECK_THROWS_WITH_AS(communicator.all_reduce(plain_request(10))->join(cpu(0)), doctest::Contains("ended: first"),
                         SyncError);
  });
  run_good_ranks(2, 1, small_pieces(), Mapping::own, [](std::size_t rank, SharedMemoryCommunicator& communicator) {
    reduce_many(communicator, rank, 2, 1, 5);
  });
}

TEST_CASE("shared_memory: options and groups that cannot be are refused") {
  SharedMemoryOptions options = small_pieces();
  options.piece_bytes = 100;
  CHECK_THROWS_WITH_AS((void)SharedMemoryCommunicator::make_segment(1, 0, options),
                       doctest::Contains("pieces of 100 bytes"), SyncError);
  options = small_pieces();
  options.array_bytes = ~std::size_t{0};
  CHECK_THROWS_AS((void)SharedMemoryCommunicator::make_segment(1, 0, options), OutOfMemoryError);
  options = small_pieces();
  CHECK_THROWS_WITH_AS((void)SharedMemoryCommunicator::connect(fresh_name(), 1, members_of_ranks(1, 17), 0, options),
                       doctest::Contains("rank 0 has more than 16 devices"), SyncError);
  const auto first = SharedMemoryCommunicator::make_segment(1, 0, options);
  const auto second = SharedMemoryCommunicator::make_segment(2, 1, options);
  CHECK_THROWS_WITH_AS(SharedMemoryCommunicator({first, second}, 1, members_of_ranks(2, 1), 0, options),
                       doctest::Contains("the segment of rank 1 has the epoch 2, here it is 1"), SyncError);
  options.piece_bytes *= 2;
  CHECK_THROWS_WITH_AS(SharedMemoryCommunicator({first}, 1, members_of_ranks(1, 1), 0, options),
                       doctest::Contains("the segment of rank 0 has bytes of staging memory in a slot: 16384"),
                       SyncError);
}

TEST_SUITE_END();
