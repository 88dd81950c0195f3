// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <new>
#include <string>
#include <utility>

namespace tutti {

/// The process in which an object was made, told apart from its children by `fork`: a child has the object's memory but
/// none of its threads, so that whoever waits for one there waits for ever. Costs a load to ask.
class ProcessMark {
 public:
  ProcessMark();
  bool here() const noexcept { return forks_ == forks.load(std::memory_order_relaxed); }
  /// "was made in process 12 and is used in its child 34, where its threads do not exist: make it after fork"
  std::string elsewhere_text() const;

 private:
  static constinit std::atomic<std::uint32_t> forks;  // number of forks from the first process to this one
  std::uint32_t forks_;
  long process_;
};

/// A thread, or what threads wait on, that is destroyed in the process that made it and left alone in its children,
/// where that would wait for ever or end the process.
template <class T> class OfProcess {
 public:
  template <class... Args> explicit OfProcess(Args&&... args) : value_(std::forward<Args>(args)...) {}
  ~OfProcess() {
    if (here()) value_.~T();
  }
  OfProcess(const OfProcess&) = delete;
  OfProcess& operator=(const OfProcess&) = delete;

  bool here() const noexcept { return made_.here(); }
  std::string elsewhere_text() const { return made_.elsewhere_text(); }
  /// Puts a new value in the place of the parent's, in a child.
  void renew() {
    if (here()) return;
    new (&value_) T();
    made_ = ProcessMark();
  }
  T& operator*() noexcept { return value_; }
  T* operator->() noexcept { return &value_; }
  const T* operator->() const noexcept { return &value_; }

 private:
  ProcessMark made_;
  union {
    T value_;
  };
};

}  // namespace tutti
