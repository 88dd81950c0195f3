// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#endif

namespace tutti::bench {

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// Gives the core away after a while, so that a bench also ends where other work competes for two cores.
template <class Condition> void spin_until(Condition condition) {
  for (int turn = 0; !condition(); ++turn) {
    if (turn > 2'000) std::this_thread::yield();
    pause();
  }
}

/// Where two threads meet, by spinning: about 60 ns on one machine, against some 30 µs for a wake-up.
class SpinBarrier {
 public:
  void arrive_and_wait() {
    const std::uint64_t round = round_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) == 1) {
      arrived_.store(0, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_release);
    } else {
      spin_until([&] { return round_.load(std::memory_order_acquire) != round; });
    }
  }

 private:
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<std::uint64_t> round_{0};
};

/// Binds a thread to one core while it lives: two threads that meet by spinning must not share one. Does nothing where
/// the system has no such call or allows a single core.
class OneCore {
 public:
  explicit OneCore(std::size_t place) {
#if defined(__linux__)
    if (pthread_getaffinity_np(pthread_self(), sizeof allowed_, &allowed_) != 0) return;
    std::size_t seen = 0;
    for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
      if (!CPU_ISSET(core, &allowed_) || seen++ != place) continue;
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(core, &one);
      bound_ = pthread_setaffinity_np(pthread_self(), sizeof one, &one) == 0;
    }
#endif
  }
  ~OneCore() {
#if defined(__linux__)
    if (bound_) pthread_setaffinity_np(pthread_self(), sizeof allowed_, &allowed_);
#endif
  }
  OneCore(const OneCore&) = delete;
  OneCore& operator=(const OneCore&) = delete;

 private:
#if defined(__linux__)
  cpu_set_t allowed_;
  bool bound_ = false;
#endif
};

/// The calling thread as device 0 and one persistent thread as device 1, each on a core of its own.
class ThreadPair {
 public:
  ThreadPair() {
    second_ = std::thread([this] { serve(); });
    first_core_.emplace(0);  // after the second thread has inherited every core
  }
  ~ThreadPair() {
    work_ = nullptr;
    posted_.fetch_add(1, std::memory_order_release);
    posted_.notify_one();
    second_.join();
  }
  ThreadPair(const ThreadPair&) = delete;
  ThreadPair& operator=(const ThreadPair&) = delete;

  /// Runs work(0) here and work(1) on the other thread; returns when both have ended, rethrows what the second threw.
  void run(std::function<void(std::size_t)> work) {
    work_ = std::move(work);
    error_ = nullptr;
    posted_.fetch_add(1, std::memory_order_release);
    posted_.notify_one();
    work_(0);
    spin_until([this] { return finished_.load(std::memory_order_acquire) == posted_.load(std::memory_order_relaxed); });
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void serve() {
    const OneCore core(1);
    for (std::uint64_t round = 1;; ++round) {
      for (int turn = 0; turn < 20'000 && posted_.load(std::memory_order_acquire) < round; ++turn) pause();
      posted_.wait(round - 1, std::memory_order_acquire);
      if (!work_) return;
      try {
        work_(1);
      } catch (...) {
        error_ = std::current_exception();
      }
      finished_.store(round, std::memory_order_release);
    }
  }

  std::function<void(std::size_t)> work_;  // empty: end
  std::exception_ptr error_;               // of the second thread
  alignas(64) std::atomic<std::uint64_t> posted_{0};
  alignas(64) std::atomic<std::uint64_t> finished_{0};
  std::thread second_;
  std::optional<OneCore> first_core_;
};

}  // namespace tutti::bench
