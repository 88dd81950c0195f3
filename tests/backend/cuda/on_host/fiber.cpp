// SPDX-License-Identifier: Apache-2.0
#undef _FORTIFY_SOURCE  // its longjmp does not let go of a stack
#include <tutti/tests/backend/cuda/on_host/fiber.h>

#include <sys/mman.h>

#include <new>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#define TUTTI_ADDRESS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TUTTI_ADDRESS_SANITIZER
#endif
#endif

#ifdef TUTTI_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
#define ASAN_UNPOISON_MEMORY_REGION(data, bytes)
namespace {
void __sanitizer_start_switch_fiber(void**, const void*, std::size_t) {}
void __sanitizer_finish_switch_fiber(void*, const void**, std::size_t*) {}
}  // namespace
#endif

namespace tutti::on_host {
namespace {

constexpr std::size_t kGuard = 4096;  // behind the end of a stack
Fiber* beginner = nullptr;            // makecontext passes no pointers

}  // namespace

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)) {
  void* const memory = mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  stack_ = static_cast<std::byte*>(memory);
  mprotect(memory, kGuard, PROT_NONE);
  getcontext(&beginning_);
  beginning_.uc_stack.ss_sp = memory;
  beginning_.uc_stack.ss_size = kStack;
  beginning_.uc_link = nullptr;
  makecontext(&beginning_, &Fiber::begin, 0);
}

Fiber::~Fiber() {
  ASAN_UNPOISON_MEMORY_REGION(stack_, kStack);
  munmap(stack_, kStack);
}

void Fiber::begin() {
  Fiber& self = *beginner;
  __sanitizer_finish_switch_fiber(nullptr, &self.outside_stack_, &self.outside_bytes_);
  for (;;) {
    self.body_();
    self.pause();
  }
}

void Fiber::resume() {
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, stack_, kStack);
  if (_setjmp(outside_) == 0) {
    if (begun_) _longjmp(inside_, 1);
    begun_ = true;
    beginner = this;
    setcontext(&beginning_);
  }
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
}

void Fiber::pause() {
  __sanitizer_start_switch_fiber(&fake_stack_, outside_stack_, outside_bytes_);
  if (_setjmp(inside_) == 0) _longjmp(outside_, 1);
  __sanitizer_finish_switch_fiber(fake_stack_, &outside_stack_, &outside_bytes_);
}

void Fiber::abandon() {
  begun_ = false;
  __sanitizer_start_switch_fiber(nullptr, outside_stack_, outside_bytes_);
  ASAN_UNPOISON_MEMORY_REGION(stack_, kStack);
  _longjmp(outside_, 1);
}

}  // namespace tutti::on_host
