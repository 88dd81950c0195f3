// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/local/staged_task.h>

#include <tutti/backend/registry.h>
#include <tutti/distributed/collectives/compressed_reduction.h>
#include <tutti/distributed/engines/local/local_communicator.h>
#include <tutti/tests/distributed/device_threads.h>

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <stdexcept>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

TEST_CASE("staged_task: no chunk runs before the last of the stage before it, and each runs once") {
  constexpr std::int64_t kChunks = 40;
  constexpr std::size_t kStages = 6;
  for (int repetition = 0; repetition < 50; ++repetition) {
    std::vector<std::atomic<std::int64_t>> done(kStages);
    std::atomic<int> wrong{0};
    std::vector<WorkStage> stages;
    for (std::size_t s = 0; s < kStages; ++s) {
      const std::int64_t chunks = s % 2 == 0 ? kChunks : 1;
      stages.push_back({chunks, [&, s](std::int64_t) {
                          if (s > 0 && done[s - 1] != (s % 2 == 1 ? kChunks : 1)) ++wrong;
                          ++done[s];
                        }});
    }
    FunctionTask task({}, test_devices(3), std::move(stages));
    run_devices(3, [&](std::size_t d) {
      for (std::uint32_t now; (now = task.progress()) != CollectiveTask::kFinished;) {
        task.run(cpu(static_cast<std::uint16_t>(d)));
        task.run_all({});
        task.wait_past(now);
      }
    });
    CHECK(wrong == 0);
    for (std::size_t s = 0; s < kStages; ++s) CHECK(done[s] == (s % 2 == 0 ? kChunks : 1));
    CHECK(!task.error());
    CHECK(!task.may_have_more({}));
  }
}

TEST_CASE("staged_task: an error ends the task after its stage, and the functions are dropped") {
  const auto held = std::make_shared<int>(0);
  std::atomic<int> runs{0};
  std::vector<WorkStage> stages;
  stages.push_back({4, [held, &runs](std::int64_t chunk) {
                      ++runs;
                      if (chunk == 1) throw std::runtime_error("chunk 1");
                    }});
  stages.push_back({1, [held, &runs](std::int64_t) { runs += 100; }});
  FunctionTask task({}, test_devices(1), std::move(stages));
  CHECK(held.use_count() == 3);
  task.run_all({});
  CHECK(task.finished());
  CHECK(runs == 4);
  CHECK(held.use_count() == 1);
  CHECK_THROWS_WITH(std::rethrow_exception(task.error()), "chunk 1");
  task.wait();  // returns at once
}

TEST_CASE("staged_task: whoever waits for a task that nobody helps does it") {
  int runs = 0;
  std::vector<WorkStage> stages;
  for (int s = 0; s < 3; ++s) stages.push_back({5, [&runs](std::int64_t) { ++runs; }});
  FunctionTask task({}, test_devices(2), std::move(stages));
  task.wait();
  CHECK(runs == 15);
}

namespace {

/// Adds 1 to each member's number, sums, and gives the sum to all, twice.
class Counting : public CompressedReduction {
 public:
  explicit Counting(std::vector<Array> numbers) : numbers_(std::move(numbers)) {}
  const std::vector<Device>& devices() const override { return devices_; }
  std::size_t rounds() const override { return 2; }
  void encode(std::size_t, std::size_t member) override { *numbers_[member].data<float>() += 1; }
  std::vector<AllReduceRequest> factors(std::size_t) override {
    AllReduceRequest request;
    for (const Array& number : numbers_) request.slices.push_back({number, true});
    return {request};
  }
  void decode(std::size_t member) override { *numbers_[member].data<float>() *= 10; }

 private:
  std::vector<Device> devices_ = test_devices(3);
  std::vector<Array> numbers_;
};

}  // namespace

TEST_CASE("staged_task: an engine runs rounds of encoding and summing, then decoding, whoever helps") {
  LocalCommunicator communicator;
  for (int repetition = 0; repetition < 200; ++repetition) {
    std::vector<Array> numbers;
    std::vector<Event> ready;
    for (std::size_t d = 0; d < 3; ++d) {
      numbers.push_back(Array::full({1}, static_cast<double>(d), DType::f32, cpu(static_cast<std::uint16_t>(d))));
      ready.push_back(compute_stream(cpu(static_cast<std::uint16_t>(d))).record());
    }
    const std::shared_ptr<CollectiveTask> task[] = {
        communicator.compressed_all_reduce(std::make_shared<Counting>(numbers), ready, test_devices(3))};
    run_devices(3, [&](std::size_t d) { join_tasks(cpu(static_cast<std::uint16_t>(d)), task); });
    for (const Array& number : numbers) CHECK(number.item<float>() == ((0 + 1 + 2 + 3) + 1) * 3 * 10);
  }
}

TEST_SUITE_END();
