// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <cstddef>
#include <functional>

namespace tutti::on_host {

/// A function that can stop in its midst and go on later, on a stack of its own. All of a fiber runs on the thread that
/// resumes it. Switching takes some nanoseconds: no call to the system.
class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Goes on until the body pauses or ends; when it had ended, from its beginning.
  void resume();
  /// On the fiber: back to who resumed it.
  void pause();
  /// On the fiber: the same, but the next time it begins anew. Destructors of what lies on the stack do not run.
  [[noreturn]] void abandon();

  static constexpr std::size_t kStack = std::size_t{64} << 10U;
  const std::byte* stack() const noexcept { return stack_; }  ///< kStack bytes

 private:
  static void begin();

  std::function<void()> body_;
  std::byte* stack_;
  bool begun_ = false;
  jmp_buf inside_;
  jmp_buf outside_;
  ucontext_t beginning_;
  // For AddressSanitizer, which must know the stack that runs.
  void* fake_stack_ = nullptr;
  const void* outside_stack_ = nullptr;
  std::size_t outside_bytes_ = 0;
};

}  // namespace tutti::on_host
