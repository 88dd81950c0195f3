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

// In elements. The largest is small enough for each core's L2 with many devices; the smallest takes about as long to
// sum as handing it to another core.
constexpr std::int64_t kLargestChunk = 16 * 1024;
constexpr std::int64_t kSmallestChunk = 1024;

/// As many equal chunks for each device as the largest allows.
std::int64_t chunk_size(std::int64_t elements, std::size_t devices) {
  constexpr std::int64_t kLine = 16;  // elements: a cache line of f32
  const auto shares = static_cast<std::int64_t>(devices);
  const std::int64_t rounds = (elements + shares * kLargestChunk - 1) / (shares * kLargestChunk);
  const std::int64_t chunks = std::max<std::int64_t>(1, rounds * shares);
  const std::int64_t even = (elements + chunks - 1) / chunks;
  return std::max(kSmallestChunk, (even + kLine - 1) / kLine * kLine);
}

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

// Each device has an equal share of the chunks, claimed by its own thread from the front and by others from the back:
// whoever completes a reduction is not held up by all of it, while the others compute on.
class LocalCommunicator::Task : public CollectiveTask {
 public:
  using RunChunk = std::function<void(std::int64_t chunk)>;

  /// `run_chunk` holds the arrays and is dropped when the last chunk is done.
  Task(std::vector<Event> inputs, std::int64_t chunks, std::vector<Device> devices, RunChunk run_chunk)
      : inputs_(std::move(inputs)),
        chunks_(chunks),
        devices_(std::move(devices)),
        run_chunk_(std::move(run_chunk)),
        shares_(devices_.size()),
        remaining_(chunks_) {
    std::erase_if(inputs_, [](const Event& event) { return !event.recorded(); });
    for (std::size_t i = 0; i < shares_.size(); ++i)
      shares_[i].count = static_cast<std::uint32_t>(begin_of(i + 1) - begin_of(i));
  }

  bool ready() const {
    return std::all_of(inputs_.begin(), inputs_.end(), [](const Event& event) { return event.ready(); });
  }

  // Blocks; an input's error becomes the task's when its chunks run.
  void wait_for_inputs() const noexcept {
    for (const Event& event : inputs_) try {
        event.synchronize();
      } catch (...) {
        // seen again by run
      }
  }

  bool has_unclaimed_chunks() const {
    return std::any_of(shares_.begin(), shares_.end(), [](const Share& share) { return share.unclaimed() > 0; });
  }
  bool has_unclaimed_chunks(Device device) const {
    const std::size_t own = share_of(device);
    return own < shares_.size() && shares_[own].unclaimed() > 0;
  }

  void run(Device device) {
    const std::size_t own = share_of(device);
    if (own < shares_.size()) run_claimed([&] { return claim(own, true); });
  }

  /// All that is left; first the device's share, if there is one of it.
  void run_all(std::optional<Device> device) {
    if (device) run(*device);
    run_claimed([&]() -> std::int64_t {
      for (std::size_t share = 0; share < shares_.size(); ++share)
        if (const std::int64_t chunk = claim(share, false); chunk >= 0) return chunk;
      return -1;
    });
  }

  /// For measurements: ends without touching anything.
  void skip() {
    for (Share& share : shares_) share.claimed.store(share.count, std::memory_order_relaxed);
    run_chunk_ = nullptr;
    finish();
  }

 private:
  struct alignas(64) Share {
    // Chunks claimed from the front in the low half, from the back in the high half.
    std::atomic<std::uint64_t> claimed{0};
    std::uint32_t count = 0;

    static std::uint32_t front(std::uint64_t claimed) { return static_cast<std::uint32_t>(claimed); }
    static std::uint32_t back(std::uint64_t claimed) { return static_cast<std::uint32_t>(claimed >> 32U); }
    std::uint32_t unclaimed() const {
      const std::uint64_t now = claimed.load(std::memory_order_relaxed);
      return count - front(now) - back(now);
    }
  };

  std::int64_t begin_of(std::size_t share) const {
    return chunks_ * static_cast<std::int64_t>(share) / static_cast<std::int64_t>(shares_.size());
  }
  std::size_t share_of(Device device) const {
    return static_cast<std::size_t>(std::find(devices_.begin(), devices_.end(), device) - devices_.begin());
  }

  // -1: none is left.
  std::int64_t claim(std::size_t index, bool from_front) {
    Share& share = shares_[index];
    std::uint64_t claimed = share.claimed.load(std::memory_order_relaxed);
    while (Share::front(claimed) + Share::back(claimed) < share.count)
      if (share.claimed.compare_exchange_weak(claimed, claimed + (from_front ? 1 : std::uint64_t{1} << 32U),
                                              std::memory_order_relaxed))
        return from_front ? begin_of(index) + Share::front(claimed) : begin_of(index + 1) - 1 - Share::back(claimed);
    return -1;
  }

  // Once the last chunk is counted another thread may drop what the task holds.
  template <class Claim> void run_claimed(Claim claim) {
    std::int64_t chunk = claim();
    if (chunk < 0) return;
    const auto start = Clock::now();
    std::int64_t done = 0;
    for (; chunk >= 0; chunk = claim(), ++done) try_chunk(chunk);
    busy_ns_.fetch_add((Clock::now() - start).count(), std::memory_order_relaxed);
    if (remaining_.fetch_sub(done, std::memory_order_acq_rel) > done) return;
    run_chunk_ = nullptr;  // nobody else reads them any more; reports keep finished tasks for long
    finish(std::move(failure_));
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

  alignas(64) std::vector<Event> inputs_;
  std::int64_t chunks_;
  std::vector<Device> devices_;
  RunChunk run_chunk_;
  std::vector<Share> shares_;  // by place in devices_
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
    task->run_all({});
  }
}

std::shared_ptr<CollectiveTask> LocalCommunicator::all_reduce(AllReduceRequest request) {
  check(request);
  const std::int64_t total = request.slices.front().gradient.size();
  const std::int64_t chunk = chunk_size(total, request.slices.size());
  std::vector<Event> inputs = std::move(request.ready);
  std::vector<Device> devices;
  devices.reserve(request.slices.size());
  for (const AllReduceSlice& slice : request.slices) devices.push_back(slice.gradient.device());
  auto task =
      std::make_shared<Task>(std::move(inputs), std::max<std::int64_t>(1, (total + chunk - 1) / chunk),
                             std::move(devices), [request = std::move(request), total, chunk](std::int64_t index) {
                               const std::int64_t begin = index * chunk;
                               const std::int64_t count = std::min(chunk, total - begin);
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

std::shared_ptr<CollectiveTask> LocalCommunicator::collective(CollectiveRequest request) {
  struct Chunk {
    std::size_t part;
    std::int64_t begin;
    std::int64_t count;
  };
  std::vector<Device> devices = request.devices;
  if (devices.empty())
    for (const Array& output : request.outputs)
      if (std::ranges::find(devices, output.device()) == devices.end()) devices.push_back(output.device());
  std::vector<Chunk> chunks;
  for (std::size_t part = 0; part < request.parts.size(); ++part) {
    const std::int64_t count = request.parts[part].count;
    const std::int64_t size = chunk_size(count, devices.size());
    for (std::int64_t begin = 0; begin < count; begin += size)
      chunks.push_back({part, begin, std::min(size, count - begin)});
  }
  if (chunks.empty()) chunks.push_back({0, 0, 0});
  const auto count = static_cast<std::int64_t>(chunks.size());
  std::vector<Event> inputs = request.ready;
  auto task = std::make_shared<Task>(std::move(inputs), count, std::move(devices),
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

// What a device has claimed all of its share of is not looked at again.
std::shared_ptr<LocalCommunicator::Task> LocalCommunicator::next_task(std::optional<Device> device) {
  const auto lock = lock_spinning(mutex_);
  while (!open_.empty() && !open_.front()->has_unclaimed_chunks()) {
    open_.pop_front();
    ++first_open_;
  }
  open_count_.store(static_cast<int>(open_.size()), std::memory_order_release);
  std::uint64_t none = first_open_;
  std::uint64_t& next = device ? next_share_[*device] : none;
  next = std::max(next, first_open_);
  bool all_claimed = true;
  for (std::uint64_t number = next; number < first_open_ + open_.size(); ++number) {
    const auto& task = open_[number - first_open_];
    if (device ? !task->has_unclaimed_chunks(*device) : !task->has_unclaimed_chunks()) {
      if (all_claimed) next = number + 1;
    } else if (task->ready()) {
      return task;
    } else {
      all_claimed = false;
    }
  }
  return nullptr;
}

void LocalCommunicator::help(Device device) {
  while (open_count_.load(std::memory_order_acquire) > 0) {
    const auto task = next_task(device);
    if (!task) return;
    task->run(device);
  }
}

void LocalCommunicator::help_all(Device device) {
  help(device);
  while (open_count_.load(std::memory_order_acquire) > 0) {
    const auto task = next_task({});
    if (!task) return;
    task->run_all(device);
  }
}

// Blocking is safe once nothing of a task can be claimed: other threads are running what is left of it, or its inputs
// are late and the worker takes it when their stream has produced them.
void LocalCommunicator::join(Device device, std::span<const std::shared_ptr<CollectiveTask>> tasks) {
  for (const auto& task : tasks) {
    if (task->finished()) continue;
    auto& own = static_cast<Task&>(*task);  // this engine launched it
    if (own.ready()) own.run_all(device);
    if (!spin_until([&] { return own.finished(); })) own.wait();
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
    task->run_all({});
    lock.lock();
    while (!open_.empty() && !open_.front()->has_unclaimed_chunks()) {
      open_.pop_front();
      ++first_open_;
    }
    open_count_.store(static_cast<int>(open_.size()), std::memory_order_release);
  }
}

std::unique_ptr<Communicator> make_communicator(std::span<const Device> devices) {
  for (const Device device : devices)
    if (device.kind != DeviceKind::cpu)
      raise<DeviceError>("[sync] no engine was built for {}: the local engine takes CPU devices", to_string(device));
  return std::make_unique<LocalCommunicator>();
}

}  // namespace tutti
