// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cpu/runtime/function_ref.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace tutti {

class LoopExecutor;

/// The threads of one CPU device, its own or those of a program's executor. Loops are cut into blocks of a size that
/// the caller fixes, by the number of threads only where results cannot depend on it (matmul.cpp), and no block waits
/// for another, so that results depend neither on that number nor on who runs them. Thread-safe: while one host
/// thread's loop is spread over the workers, loops of other host threads run inline, as do loops started from inside a
/// block.
class ThreadPool {
 public:
  using Block = FunctionRef<void(std::int64_t begin, std::int64_t end)>;

  explicit ThreadPool(int threads);  ///< the caller counts as one: `threads - 1` workers are started
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const noexcept { return threads_.load(std::memory_order_relaxed); }

  /// Waits for a loop in progress, then joins or starts workers. Not to be called from inside a block.
  void resize(int threads);

  /// Has loops run by the executor, in up to `threads` parts, in place of workers; null: by workers again. Waits for a
  /// loop in progress. Throws Error from inside a block, and in a child of the process that has the workers.
  void run_by(std::unique_ptr<LoopExecutor>, int threads);

  /// Calls `block(begin, end)` for [0, grain), [grain, 2 grain), ... up to `count`, each once, in any order and on any
  /// thread; returns when all are done. The first exception of a block is rethrown here and blocks not yet begun are
  /// skipped. `grain` > 0.
  template <class F> void parallel_for(std::int64_t count, std::int64_t grain, F&& block) {
    if (count <= grain || threads() == 1 || inside_block()) {
      for (std::int64_t begin = 0; begin < count; begin += grain) block(begin, std::min(count, begin + grain));
      return;
    }
    run(count, grain, Block(block));
  }

 private:
  struct Loop;
  struct InsideBlock;

  static bool& inside_block() noexcept;  // true on workers, and on a caller while it runs blocks
  void run(std::int64_t count, std::int64_t grain, Block);
  void spread(Loop&);
  void restart(int threads);
  void start_workers(int count);
  void stop_workers() noexcept;
  void work();
  bool enter() noexcept;
  void leave() noexcept;
  void close_and_wait() noexcept;

  std::atomic<int> threads_;
  std::mutex busy_;                         // held by the host thread whose loop is spread, and by resize and run_by
  std::unique_ptr<LoopExecutor> executor_;  // null: workers; guarded by busy_
  Loop* loop_ = nullptr;                    // read only between enter() and leave()
  std::vector<std::thread> workers_;
  std::atomic<bool> stop_{false};
  // Bit 31: workers may enter `loop_`; the bits below: how many are inside.
  alignas(64) std::atomic<std::uint32_t> state_{0};
  alignas(64) std::atomic<std::uint32_t> epoch_{0};  // bumped for every loop; workers sleep on it
};

}  // namespace tutti
