// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

namespace tutti {

/// One T that each thread keeps between uses, deleted when the thread ends. Who uses it takes it, so that what runs
/// within the use finds none. What a thread does still later, in destructors of other objects of the thread and of
/// static ones, works too: it keeps nothing.
template <class T> class KeptByThread {
 public:
  /// Null: the thread keeps none, or it is in use.
  static std::unique_ptr<T> take() noexcept { return std::unique_ptr<T>(std::exchange(kept_, nullptr)); }

  static void keep(std::unique_ptr<T> used) noexcept {
    static thread_local AtEnd at_end;
    if (!at_end.is_over()) delete std::exchange(kept_, used.release());
  }

 private:
  // Trivial types, which hold their values while objects of the thread are destroyed.
  static constinit inline thread_local T* kept_ = nullptr;
  static constinit inline thread_local bool over_ = false;

  struct AtEnd {
    ~AtEnd() {
      delete std::exchange(kept_, nullptr);
      over_ = true;
    }
    static bool is_over() noexcept { return over_; }
  };
};

}  // namespace tutti
