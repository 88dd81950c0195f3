// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/local_communicator.h>

#include <tutti/backend/error.h>
#include <tutti/distributed/spinning_lock.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

namespace tutti {

namespace {

constexpr std::int64_t kChunk =
    16 * 1024;  // elements: 64 KiB of f32, small enough for each core's L2 with many devices

std::int64_t chunks_in(std::int64_t elements) { return (elements + kChunk - 1) / kChunk; }

bool is_power_of_two(double value) {
  int exponent = 0;
  return std::frexp(value, &exponent) == 0.5;
}

// One thread sums each element over the slices in order; the block keeps the running sums in cache.
template <class T>
void sum_block(std::span<T* const> inputs, std::span<T* const> outputs, std::int64_t count, T denominator) {
  constexpr std::int64_t kBlock = 512;
  T sums[kBlock];
  const T reciprocal = T(1) / denominator;
  const bool exact = is_power_of_two(static_cast<double>(denominator));
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t length = std::min(kBlock, count - begin);
    std::fill_n(sums, length, T(0));
    if (!inputs.empty()) std::copy_n(inputs.front() + begin, length, sums);
    for (T* input : inputs.subspan(std::min<std::size_t>(1, inputs.size())))
      for (std::int64_t i = 0; i < length; ++i) sums[i] += input[begin + i];
    if (exact)
      for (std::int64_t i = 0; i < length; ++i) sums[i] *= reciprocal;
    else
      for (std::int64_t i = 0; i < length; ++i) sums[i] /= denominator;
    for (T* output : outputs) std::copy_n(sums, length, output + begin);
  }
}

// The common case, two devices that both contribute: one pass without the block of sums.
template <class T> void sum_pair(T* __restrict a, T* __restrict b, std::int64_t count, T denominator) {
  if (is_power_of_two(static_cast<double>(denominator))) {
    const T reciprocal = T(1) / denominator;
    for (std::int64_t i = 0; i < count; ++i) a[i] = b[i] = (a[i] + b[i]) * reciprocal;
  } else {
    for (std::int64_t i = 0; i < count; ++i) a[i] = b[i] = (a[i] + b[i]) / denominator;
  }
}

template <class T> void sum_chunk(const AllReduceRequest& request, std::int64_t begin, std::int64_t count) {
  const auto denominator = static_cast<T>(request.denominator);
  const auto& slices = request.slices;
  if (slices.size() == 2 && slices[0].contributes && slices[1].contributes)
    return sum_pair(slices[0].gradient.data<T>() + begin, slices[1].gradient.data<T>() + begin, count, denominator);
  std::vector<T*> inputs;
  std::vector<T*> outputs;
  for (const AllReduceSlice& slice : slices) {
    outputs.push_back(slice.gradient.data<T>() + begin);
    if (slice.contributes) inputs.push_back(outputs.back());
  }
  sum_block<T>(inputs, outputs, count, denominator);
}

void check(const AllReduceRequest& request) {
  if (request.slices.empty()) raise<SyncError>("[all_reduce] no slices");
  const Array& first = request.slices.front().gradient;
  if (!is_floating(first.dtype()))
    raise<DTypeError>("[all_reduce] {} is not a floating type", to_string(first.dtype()));
  for (const AllReduceSlice& slice : request.slices) {
    const Array& gradient = slice.gradient;
    if (gradient.dtype() != first.dtype() || gradient.size() != first.size() || !gradient.is_contiguous())
      raise<SyncError>("[all_reduce] slices differ or are not contiguous: {} {} on {}, {} {} on {}",
                       to_string(first.shape()), to_string(first.dtype()), to_string(first.device()),
                       to_string(gradient.shape()), to_string(gradient.dtype()), to_string(gradient.device()));
  }
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

class LocalCommunicator::Task : public CollectiveTask {
 public:
  using RunChunk = std::function<void(std::int64_t chunk)>;

  /// `run_chunk` holds the arrays and is dropped when the last chunk is done.
  Task(std::vector<Event> inputs, std::int64_t chunks, RunChunk run_chunk)
      : inputs_(std::move(inputs)), chunks_(chunks), run_chunk_(std::move(run_chunk)), remaining_(chunks_) {
    std::erase_if(inputs_, [](const Event& event) { return !event.recorded(); });
  }

  bool ready() const {
    return std::all_of(inputs_.begin(), inputs_.end(), [](const Event& event) { return event.ready(); });
  }

  // Blocks; an input's error becomes the task's when its chunks run.
  void wait_for_inputs() const noexcept {
    for (const Event& event : inputs_) try {
        event.synchronize();
      } catch (...) {
        // seen again by try_chunk
      }
  }

  bool has_unclaimed_chunks() const {
    const std::uint64_t claimed = claimed_.load(std::memory_order_relaxed);
    return front(claimed) + back(claimed) < chunks_;
  }

  /// Claims and runs chunks until none is left: the first thread from the front, the next from the back, and so on, so
  /// that two of them stream through a half each.
  void run() {
    const bool forwards = runners_.fetch_add(1, std::memory_order_relaxed) % 2 == 0;
    for (std::int64_t chunk; (chunk = claim(forwards)) >= 0;) {
      const auto start = Clock::now();
      try_chunk(chunk);
      busy_ns_.fetch_add((Clock::now() - start).count(), std::memory_order_relaxed);
      if (remaining_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        run_chunk_ = nullptr;  // nobody else reads them any more; reports keep finished tasks for long
        finish(std::move(failure_));
      }
    }
  }

  /// For measurements: ends without touching anything.
  void skip() {
    claimed_.store(static_cast<std::uint64_t>(chunks_), std::memory_order_relaxed);
    run_chunk_ = nullptr;
    finish();
  }

 private:
  // Chunks claimed from the front in the low half, from the back in the high half.
  static std::int64_t front(std::uint64_t claimed) { return static_cast<std::int64_t>(claimed & 0xFFFFFFFFU); }
  static std::int64_t back(std::uint64_t claimed) { return static_cast<std::int64_t>(claimed >> 32U); }

  // -1: none is left.
  std::int64_t claim(bool forwards) {
    std::uint64_t claimed = claimed_.load(std::memory_order_relaxed);
    while (front(claimed) + back(claimed) < chunks_)
      if (claimed_.compare_exchange_weak(claimed, claimed + (forwards ? 1 : std::uint64_t{1} << 32U),
                                         std::memory_order_relaxed))
        return forwards ? front(claimed) : chunks_ - 1 - back(claimed);
    return -1;
  }

  void try_chunk(std::int64_t chunk) noexcept {
    try {
      for (const Event& event : inputs_) event.synchronize();  // ready already: rethrows its stream's error
      run_chunk_(chunk);
    } catch (...) {
      const std::lock_guard lock(failure_mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
  }

  std::vector<Event> inputs_;
  std::int64_t chunks_;
  RunChunk run_chunk_;
  std::atomic<std::uint64_t> claimed_{0};
  std::atomic<std::uint32_t> runners_{0};
  std::atomic<std::int64_t> remaining_;
  std::mutex failure_mutex_;  // several helpers may fail at once
  std::exception_ptr failure_;
};

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
  check(request);
  const std::int64_t total = request.slices.front().gradient.size();
  std::vector<Event> inputs = std::move(request.ready);
  auto task = std::make_shared<Task>(std::move(inputs), std::max<std::int64_t>(1, chunks_in(total)),
                                     [request = std::move(request), total](std::int64_t chunk) {
                                       const std::int64_t begin = chunk * kChunk;
                                       const std::int64_t count = std::min(kChunk, total - begin);
                                       if (request.slices.front().gradient.dtype() == DType::f32)
                                         sum_chunk<float>(request, begin, count);
                                       else
                                         sum_chunk<double>(request, begin, count);
                                     });
  if (enabled())
    open(task);
  else
    task->skip();
  return task;
}

// One chunk: few rows are read in a step, and which ones is known only when all indices are there.
std::shared_ptr<CollectiveTask> LocalCommunicator::reduce_sparse(SparseReduction request) {
  std::vector<Event> inputs = std::move(request.ready);
  auto task = std::make_shared<Task>(std::move(inputs), 1,
                                     [request = std::move(request)](std::int64_t) { tutti::reduce_sparse(request); });
  if (enabled())
    open(task);
  else
    task->skip();
  return task;
}

std::shared_ptr<CollectiveTask> LocalCommunicator::collective(CollectiveRequest request) {
  struct Chunk {
    std::size_t part;
    std::int64_t begin;
    std::int64_t count;
  };
  std::vector<Chunk> chunks;
  for (std::size_t part = 0; part < request.parts.size(); ++part) {
    const std::int64_t count = request.parts[part].count;
    for (std::int64_t begin = 0; begin < count; begin += kChunk)
      chunks.push_back({part, begin, std::min(kChunk, count - begin)});
  }
  if (chunks.empty()) chunks.push_back({0, 0, 0});
  const auto count = static_cast<std::int64_t>(chunks.size());
  std::vector<Event> inputs = request.ready;
  auto task = std::make_shared<Task>(std::move(inputs), count,
                                     [request = std::move(request), chunks = std::move(chunks)](std::int64_t index) {
                                       const Chunk& chunk = chunks[static_cast<std::size_t>(index)];
                                       combine(request, request.parts[chunk.part], chunk.begin, chunk.count);
                                     });
  open(task);
  return task;
}

void LocalCommunicator::open(const std::shared_ptr<Task>& task) {
  const bool late = !task->ready();
  {
    const auto lock = lock_spinning(mutex_);
    open_.push_back(task);
    open_count_.store(static_cast<int>(open_.size()), std::memory_order_release);
    if (late && !worker_.joinable()) worker_ = std::thread([this] { run_worker(); });
  }
  if (late) work_.notify_one();
}

std::shared_ptr<LocalCommunicator::Task> LocalCommunicator::next_task() {
  const auto lock = lock_spinning(mutex_);
  std::erase_if(open_, [](const auto& task) { return !task->has_unclaimed_chunks(); });
  open_count_.store(static_cast<int>(open_.size()), std::memory_order_release);
  const auto found = std::find_if(open_.begin(), open_.end(), [](const auto& task) { return task->ready(); });
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
// its inputs are late and the worker takes it when their stream has produced them.
void LocalCommunicator::join(Device, std::span<const std::shared_ptr<CollectiveTask>> tasks) {
  for (const auto& task : tasks) {
    if (task->finished()) continue;
    help();
    if (!spin_until([&] { return task->finished(); })) task->wait();
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
    task->run();
    lock.lock();
    std::erase(open_, task);
    open_count_.store(static_cast<int>(open_.size()), std::memory_order_release);
  }
}

std::shared_ptr<CollectiveTask> Communicator::reduce_sparse(SparseReduction request) {
  raise<SyncError>(
      "[sync] this engine cannot reduce the sparse gradients of parameter \"{}\": mark it dense with "
      "set_sparse_grad(false)",
      request.parameter.name);
}

std::unique_ptr<Communicator> make_communicator(std::span<const Device> devices) {
  for (const Device device : devices)
    if (device.kind != DeviceKind::cpu)
      raise<DeviceError>("[sync] no engine was built for {}: the local engine takes CPU devices", to_string(device));
  return std::make_unique<LocalCommunicator>();
}

}  // namespace tutti
