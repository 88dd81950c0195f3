// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/runtime/cuda_stream.h>
#include <tutti/backend/cuda/runtime/pinned_memory.h>
#include <tutti/backend/error.h>
#include <tutti/tests/backend/cuda/recording/recording_cuda.h>

#include <doctest/doctest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

namespace tutti::testing {
namespace {

constexpr std::size_t kMostBlocks = 8;

struct Setting {
  explicit Setting(MachineOptions options = {.deferred = true}) : machine(options) {}
  ~Setting() { stream.synchronize(); }

  /// An event behind work that has not run.
  Event pending(std::byte* block) {
    stream.launch("use", [&](cudaStream_t handle) { machine.note_use(handle, block, PinnedMemory::kBlock, true); });
    return stream.record();
  }

  RecordingCuda machine;
  CudaStream stream{cuda(0), CudaStream::Priority::normal};
  PinnedMemory memory{cuda(0)};
};

TEST_CASE("pinned memory: a block that nothing uses is lent again") {
  Setting it;
  std::byte* first = it.memory.take();
  it.memory.give_back(first, {});
  CHECK(it.memory.take() == first);
  it.memory.give_back(first, it.pending(first));
  it.stream.synchronize();
  CHECK(it.memory.take() == first);
  it.memory.give_back(first, {});
  CHECK(it.machine.alive("pinned memory") == 1);
}

TEST_CASE("pinned memory: a block that may still be in use is not lent while there is room for others") {
  Setting it;
  std::byte* first = it.memory.take();
  it.memory.give_back(first, it.pending(first));
  std::byte* second = it.memory.take();
  CHECK(second != first);
  it.memory.give_back(second, {});
  CHECK(it.memory.take() == second);  // that one is free
  it.memory.give_back(second, {});
}

TEST_CASE("pinned memory: when all are lent the oldest is waited for, and nothing else") {
  Setting it;
  std::vector<std::byte*> blocks;
  std::vector<Event> events;
  for (std::size_t i = 0; i < kMostBlocks; ++i) {
    blocks.push_back(it.memory.take());
    events.push_back(it.pending(blocks.back()));
    it.memory.give_back(blocks.back(), events.back());
  }
  CHECK(std::set<std::byte*>(blocks.begin(), blocks.end()).size() == kMostBlocks);
  CHECK(it.memory.take() == blocks[0]);
  CHECK(events[0].ready());
  CHECK_FALSE(events[1].ready());
  CHECK(it.machine.alive("pinned memory") == kMostBlocks);
  it.memory.give_back(blocks[0], {});
}

TEST_CASE("pinned memory: threads that hold all blocks are waited for") {
  Setting it;
  std::vector<std::byte*> blocks;
  for (std::size_t i = 0; i < kMostBlocks; ++i) blocks.push_back(it.memory.take());
  CHECK(it.memory.try_take() == nullptr);
  std::atomic<std::byte*> taken{nullptr};
  std::thread other([&] { taken = it.memory.take(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(taken.load() == nullptr);
  it.memory.give_back(blocks[3], {});
  other.join();
  CHECK(taken.load() == blocks[3]);
  for (std::byte* block : blocks) it.memory.give_back(block, {});
}

TEST_CASE("pinned memory: where there is no more, that which is lent has to do") {
  Setting it({.deferred = true, .pinned = PinnedMemory::kBlock});
  std::byte* only = it.memory.take();
  it.memory.give_back(only, it.pending(only));
  CHECK(it.memory.take() == only);
  it.memory.give_back(only, {});
}

TEST_CASE("pinned memory: what went wrong in getting it is told") {
  Setting it({.deferred = true, .pinned = 1});
  CHECK_THROWS_WITH_AS(it.memory.take(), "[memory] cuda:0: no pinned memory for copies from and to the host",
                       OutOfMemoryError);
  it.machine.fail_call("cudaHostAlloc", 1, cudaErrorLaunchFailure);
  CHECK_THROWS_WITH_AS(it.memory.take(), doctest::Contains("[pinned memory] cuda:0: cudaHostAlloc failed"),
                       DeviceError);
}

TEST_CASE("pinned memory: a failed wait loses no block, and lends none that may be in use") {
  Setting it({.deferred = true, .pinned = PinnedMemory::kBlock});
  std::byte* only = it.memory.take();
  const Event used = it.pending(only);
  it.memory.give_back(only, used);
  it.machine.fail_call("cudaEventSynchronize", 1, cudaErrorLaunchFailure);
  CHECK_THROWS_AS(it.memory.take(), DeviceError);
  CHECK_FALSE(used.ready());
  CHECK(it.memory.take() == only);
  CHECK(used.ready());
  it.memory.give_back(only, {});
}

}  // namespace
}  // namespace tutti::testing
