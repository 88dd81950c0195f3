// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace tutti {

/// Condition of one thread that others give work. While work comes often the thread looks for it by itself, as to be
/// woken for each piece costs more than a short step; when none came since its last look it sleeps until it is woken.
/// All calls are under one mutex, which guards the work, too.
class WorkSignal {
 public:
  /// Notes that work came, and wakes the thread if it sleeps.
  void came() {
    came_ = true;
    if (sleeps_) condition_.notify_one();
  }
  /// Wakes the thread, whatever it waits for.
  void wake() { condition_.notify_one(); }
  /// Waits for the next look, `period` from now, or until it is woken; without work since the last wait of this kind
  /// until `has_news`. The thread's, when it has found no work.
  template <class Condition>
  void wait_for_work(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds period, Condition has_news) {
    if (std::exchange(came_, false)) {
      condition_.wait_for(lock, period);
      return;
    }
    sleep(lock, has_news);
  }
  /// Waits until `has_news`, whether work came or not.
  template <class Condition> void sleep(std::unique_lock<std::mutex>& lock, Condition has_news) {
    came_ = false;
    sleeps_ = true;
    condition_.wait(lock, has_news);
    sleeps_ = false;
  }
  /// Waits until it is woken, or that time.
  void wait_until(std::unique_lock<std::mutex>& lock, std::chrono::steady_clock::time_point time) {
    condition_.wait_until(lock, time);
  }

 private:
  std::condition_variable condition_;
  bool came_ = false;    // work, since the thread last found none
  bool sleeps_ = false;  // the thread, until it is woken
};

}  // namespace tutti
