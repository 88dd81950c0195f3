// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/local_communicator.h>

#include <tutti/backend/error.h>
#include <tutti/distributed/compressed_reduction.h>
#include <tutti/distributed/gradient_sums.h>
#include <tutti/distributed/spinning_lock.h>

#include <algorithm>
#include <functional>

namespace tutti {

namespace {

constexpr std::int64_t kChunk =
    16 * 1024;  // elements: 64 KiB of f32, small enough for each core's L2 with many devices

// Elements [begin, begin + count) of the request or part with that index.
struct Chunk {
  std::size_t index;
  std::int64_t begin;
  std::int64_t count;
};

void add_chunks(std::vector<Chunk>& chunks, std::size_t index, std::int64_t elements) {
  for (std::int64_t begin = 0; begin < elements; begin += kChunk)
    chunks.push_back({index, begin, std::min(kChunk, elements - begin)});
}

// One empty chunk where there is nothing to do, so that the stage ends.
WorkStage stage_of(std::vector<Chunk> chunks, std::function<void(const Chunk&)> run) {
  if (chunks.empty()) chunks.push_back({0, 0, 0});
  const auto count = static_cast<std::int64_t>(chunks.size());
  return {count, [chunks = std::move(chunks), run = std::move(run)](std::int64_t chunk) {
            run(chunks[static_cast<std::size_t>(chunk)]);
          }};
}

// About as long as waking a blocked thread takes.
template <class Condition> bool spin_until(Condition condition) {
  for (int turn = 0; turn < 1000; ++turn) {
    if (condition()) return true;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  return condition();
}

}  // namespace

LocalCommunicator::~LocalCommunicator() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_one();
  if (worker_.joinable()) worker_.join();
  for (const auto& task : open_) {  // no worker ran: its inputs were ready at launch, and nobody had time since
    task->wait_for_inputs();
    task->run();
  }
}

std::shared_ptr<CollectiveTask> LocalCommunicator::all_reduce(AllReduceRequest request) {
  check_slices(request);
  const std::int64_t total = request.slices.front().gradient.size();
  const std::int64_t chunks = std::max<std::int64_t>(1, (total + kChunk - 1) / kChunk);
  std::vector<Event> inputs = std::move(request.ready);
  std::vector<WorkStage> stages;
  stages.push_back({chunks, [request = std::move(request), total](std::int64_t chunk) {
                      const std::int64_t begin = chunk * kChunk;
                      sum_elements(request, begin, std::min(kChunk, total - begin));
                    }});
  auto task = std::make_shared<StagedTask>(std::move(inputs), std::move(stages));
  if (enabled())
    open(task);
  else
    task->skip();
  return task;
}

// Each device's encoding is a chunk, then the factors are summed like any gradients, and so on.
std::shared_ptr<CollectiveTask> LocalCommunicator::compressed_all_reduce(std::shared_ptr<CompressedReduction> reduction,
                                                                         std::vector<Event> ready) {
  const auto members = static_cast<std::int64_t>(reduction->members());
  std::vector<WorkStage> stages;
  for (std::size_t round = 0; round < reduction->rounds(); ++round) {
    stages.push_back({members, [reduction, round](std::int64_t member) {
                        reduction->encode(round, static_cast<std::size_t>(member));
                      }});
    std::vector<AllReduceRequest> factors = reduction->factors(round);
    std::vector<Chunk> chunks;
    for (std::size_t i = 0; i < factors.size(); ++i) {
      check_slices(factors[i]);
      add_chunks(chunks, i, factors[i].slices.front().gradient.size());
    }
    stages.push_back(stage_of(std::move(chunks), [factors = std::move(factors)](const Chunk& chunk) {
      if (chunk.count > 0) sum_elements(factors[chunk.index], chunk.begin, chunk.count);
    }));
  }
  stages.push_back(
      {members, [reduction](std::int64_t member) { reduction->decode(static_cast<std::size_t>(member)); }});
  auto task = std::make_shared<StagedTask>(std::move(ready), std::move(stages));
  open(task);
  return task;
}

std::shared_ptr<CollectiveTask> LocalCommunicator::collective(CollectiveRequest request) {
  std::vector<Chunk> chunks;
  for (std::size_t part = 0; part < request.parts.size(); ++part) add_chunks(chunks, part, request.parts[part].count);
  std::vector<Event> inputs = request.ready;
  std::vector<WorkStage> stages;
  stages.push_back(stage_of(std::move(chunks), [request = std::move(request)](const Chunk& chunk) {
    combine(request, request.parts[chunk.index], chunk.begin, chunk.count);
  }));
  auto task = std::make_shared<StagedTask>(std::move(inputs), std::move(stages));
  open(task);
  return task;
}

void LocalCommunicator::open(const std::shared_ptr<StagedTask>& task) {
  const bool late = !task->ready();
  {
    const auto lock = lock_spinning(mutex_);
    open_.push_back(task);
    open_count_.store(static_cast<int>(open_.size()), std::memory_order_release);
    if (late && !worker_.joinable()) worker_ = std::thread([this] { run_worker(); });
  }
  if (late) work_.notify_one();
}

std::shared_ptr<StagedTask> LocalCommunicator::next_task() {
  const auto lock = lock_spinning(mutex_);
  std::erase_if(open_, [](const auto& task) { return !task->may_have_more(); });
  open_count_.store(static_cast<int>(open_.size()), std::memory_order_release);
  const auto found = std::find_if(open_.begin(), open_.end(),
                                  [](const auto& task) { return task->has_unclaimed_chunks() && task->ready(); });
  return found == open_.end() ? nullptr : *found;
}

void LocalCommunicator::help() {
  while (open_count_.load(std::memory_order_acquire) > 0) {
    const auto task = next_task();
    if (!task) return;
    task->run();
  }
}

// Blocking is safe once there is nothing to help with: every unfinished task is then being run by another thread, or
// its inputs are late and the worker takes it when their stream has produced them. A stage that ends wakes those who
// can help with the next.
void LocalCommunicator::join(Device, std::span<const std::shared_ptr<CollectiveTask>> tasks) {
  for (const auto& task : tasks) {
    for (std::uint32_t now; (now = task->progress()) != CollectiveTask::kFinished;) {
      help();
      if (!spin_until([&] { return task->progress() != now; })) task->wait_past(now);
    }
  }
  for (const auto& task : tasks)
    if (task->error()) std::rethrow_exception(task->error());
}

void LocalCommunicator::run_worker() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return stopping_ || !open_.empty(); });
    if (open_.empty()) return;  // stopping, and everything launched is done
    const auto task = open_.front();
    lock.unlock();
    task->wait_for_inputs();
    for (std::uint32_t now; (now = task->progress()) != CollectiveTask::kFinished;) {
      task->run();
      task->wait_past(now);  // others are in its last chunks, or in those of this stage
    }
    lock.lock();
    std::erase(open_, task);
    open_count_.store(static_cast<int>(open_.size()), std::memory_order_release);
  }
}

std::shared_ptr<CollectiveTask> Communicator::compressed_all_reduce(std::shared_ptr<CompressedReduction>,
                                                                    std::vector<Event>) {
  raise<SyncError>("[all_reduce] this engine does not compress gradients");
}

std::unique_ptr<Communicator> make_communicator(std::span<const Device> devices) {
  for (const Device device : devices)
    if (device.kind != DeviceKind::cpu)
      raise<DeviceError>("[sync] no engine was built for {}: the local engine takes CPU devices", to_string(device));
  return std::make_unique<LocalCommunicator>();
}

}  // namespace tutti
