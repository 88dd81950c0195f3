// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/hooks/stop_on_interrupt.h>

#include <tutti/train/trainer.h>

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tutti {
namespace {

constexpr const char* kReason = "interrupted by Ctrl-C";

std::atomic<bool> signalled{false};
static_assert(std::atomic<bool>::is_always_lock_free);

// Signals belong to the process: the first that listens installs the handler, the last puts back what was there.
std::mutex mutex;
int listeners = 0;
struct sigaction before;

extern "C" void tutti_note_interrupt(int) {
  const int kept = errno;
  signalled.store(true, std::memory_order_relaxed);
  constexpr std::string_view kText = "\ninterrupted: training ends after this step; once more ends it at once\n";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, kText.data(), kText.size());
  errno = kept;
}

bool is_ignored(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_IGN;
}

void listen() {
  const std::lock_guard lock(mutex);
  if (listeners++ > 0) return;
  signalled.store(false, std::memory_order_relaxed);
  sigaction(SIGINT, nullptr, &before);
  if (is_ignored(before)) return;
  struct sigaction action {};
  action.sa_handler = &tutti_note_interrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);  // the second meets the default action
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
}

}  // namespace

StopOnInterrupt::~StopOnInterrupt() { end_listening(); }

void StopOnInterrupt::before_train() {
  interrupted_ = asked_ = false;
  if (!std::exchange(listening_, true)) listen();
}

void StopOnInterrupt::look() {
  if (!listening_ || asked_ || !signalled.load(std::memory_order_relaxed)) return;
  asked_ = true;
  trainer().stop(kReason);
}

// Several processes go by what they have agreed on. A signal that came after that is passed on to whoever hears it
// next.
void StopOnInterrupt::after_train() {
  const bool signal = listening_ && signalled.load(std::memory_order_relaxed);
  const std::optional<std::string> late = trainer().late_stop();
  interrupted_ = trainer().stop_reason() == kReason || (late ? *late == kReason : signal);
  end_listening();
  if (late && signal && !asked_ && !interrupted_) std::raise(SIGINT);
}

void StopOnInterrupt::end_listening() noexcept {
  if (!std::exchange(listening_, false)) return;
  const std::lock_guard lock(mutex);
  if (--listeners == 0) sigaction(SIGINT, &before, nullptr);
}

}  // namespace tutti
