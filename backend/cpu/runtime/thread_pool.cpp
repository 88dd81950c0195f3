// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/runtime/thread_pool.h>

#include <tutti/backend/cpu/runtime/loop_executor.h>
#include <tutti/backend/cpu/runtime/spin.h>
#include <tutti/backend/cpu/runtime/worker_process.h>
#include <tutti/backend/process/start_thread.h>
#include <tutti/backend/raise.h>

#include <utility>

namespace tutti {
namespace {

constexpr std::uint32_t kOpen = 1U << 31U;

}  // namespace

struct ThreadPool::Loop {
  std::int64_t count;
  std::int64_t grain;
  Block block;
  std::atomic<std::int64_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr error{};  // written by whoever sets `failed` first

  /// Claims blocks until none is left.
  void help() noexcept {
    for (;;) {
      const std::int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
      if (begin >= count || failed.load(std::memory_order_relaxed)) return;
      try {
        block(begin, std::min(count, begin + grain));
      } catch (...) {
        if (!failed.exchange(true)) error = std::current_exception();
      }
    }
  }
};

/// Says that the calling thread runs blocks, as long as it lives.
struct ThreadPool::InsideBlock {
  InsideBlock() : before(std::exchange(inside_block(), true)) {}
  ~InsideBlock() { inside_block() = before; }
  InsideBlock(const InsideBlock&) = delete;
  InsideBlock& operator=(const InsideBlock&) = delete;

  const bool before;
};

ThreadPool::ThreadPool(int threads) : threads_(worker_process().here() ? std::max(1, threads) : 1) {
  start_workers(this->threads() - 1);
}

ThreadPool::~ThreadPool() {
  if (worker_process().here())
    stop_workers();
  else
    new std::vector<std::thread>(std::move(workers_));  // destroyed, they would end the process
}

bool& ThreadPool::inside_block() noexcept {
  thread_local bool inside = false;
  return inside;
}

void ThreadPool::resize(int threads) {
  if (inside_block()) return;  // a block that ends the process: it cannot wait for itself
  if (!worker_process().here()) raise("[set_cpu_threads] the first CPU device {}", worker_process().elsewhere_text());
  const std::lock_guard lock(busy_);
  restart(threads);
}

void ThreadPool::run_by(std::unique_ptr<LoopExecutor> executor, int threads) {
  if (inside_block()) raise("[set_cpu_executor] called within a loop of a CPU device, which would wait for itself");
  if (!worker_process().here()) raise("[set_cpu_executor] the first CPU device {}", worker_process().elsewhere_text());
  const std::lock_guard lock(busy_);
  executor_.swap(executor);  // the one before ends behind the lock
  restart(threads);
}

void ThreadPool::restart(int threads) {
  stop_workers();
  threads_.store(1, std::memory_order_relaxed);  // what it is should a worker fail to start
  if (executor_ == nullptr) start_workers(threads - 1);
  threads_.store(std::max(1, threads), std::memory_order_relaxed);
}

void ThreadPool::start_workers(int count) {
  try {
    for (int i = 0; i < count; ++i) workers_.push_back(start_thread("set_cpu_threads", [this] { work(); }));
  } catch (...) {
    stop_workers();
    throw;
  }
}

void ThreadPool::stop_workers() noexcept {
  stop_.store(true);
  epoch_.fetch_add(1);
  epoch_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
  stop_.store(false);
}

void ThreadPool::run(std::int64_t count, std::int64_t grain, Block block) {
  Loop loop{count, grain, block};
  const std::unique_lock lock(busy_, std::try_to_lock);
  {
    const InsideBlock inside;
    if (lock)
      spread(loop);
    else
      loop.help();
  }
  if (loop.error != nullptr) std::rethrow_exception(loop.error);
}

void ThreadPool::spread(Loop& loop) {
  if (executor_ == nullptr) {
    loop_ = &loop;
    state_.store(kOpen, std::memory_order_release);
    epoch_.fetch_add(1);
    epoch_.notify_all();
    loop.help();
    close_and_wait();
    return;
  }
  // Another thread may have asked for one thread meanwhile, as at the process's end; a child has no threads of others.
  const std::int64_t parts = std::min<std::int64_t>(threads(), (loop.count - 1) / loop.grain + 1);
  if (parts == 1 || !worker_process().here()) return loop.help();
  executor_->run(static_cast<int>(parts), [&loop] {
    const InsideBlock inside;
    loop.help();
  });
}

/// Lets no more workers in and waits for those inside: `loop_` is this thread's alone again.
void ThreadPool::close_and_wait() noexcept {
  state_.fetch_and(~kOpen, std::memory_order_acq_rel);
  const auto empty = [this] { return state_.load(std::memory_order_acquire) == 0; };
  if (spin_until(empty)) return;
  for (std::uint32_t seen = state_.load(std::memory_order_acquire); seen != 0;
       seen = state_.load(std::memory_order_acquire))
    state_.wait(seen, std::memory_order_acquire);
}

bool ThreadPool::enter() noexcept {
  std::uint32_t seen = state_.load(std::memory_order_relaxed);
  while ((seen & kOpen) != 0)
    if (state_.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire, std::memory_order_relaxed)) return true;
  return false;
}

void ThreadPool::leave() noexcept {
  if (state_.fetch_sub(1, std::memory_order_acq_rel) == 1) state_.notify_one();
}

void ThreadPool::work() {
  inside_block() = true;
  for (;;) {
    const std::uint32_t seen = epoch_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_acquire)) return;
    if (enter()) {
      loop_->help();
      leave();
    }
    if (!spin_until([&] { return epoch_.load(std::memory_order_acquire) != seen; }))
      epoch_.wait(seen, std::memory_order_acquire);
  }
}

}  // namespace tutti
