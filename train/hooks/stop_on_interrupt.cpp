// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/hooks/stop_on_interrupt.h>

#include <tutti/backend/log.h>
#include <tutti/train/trainer.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace tutti {
namespace {

/// A signal that asks for an end, the reason of the stop that it brings, and what it is confirmed with: a line, with an
/// empty one before it on a terminal.
struct Asking {
  int signal;
  std::string_view reason;
  std::string_view confirmed;
};
constexpr std::array kAsking{Asking{SIGINT, "interrupted by Ctrl-C",
                                    "\ninterrupted: training ends after this step; Ctrl-C once more ends it at once\n"},
                             Asking{SIGTERM, "asked to end by SIGTERM",
                                    "\nasked to end: training ends after this step; Ctrl-C ends it at once\n"}};

std::string_view without_line_ends(std::string_view text) { return text.substr(1, text.size() - 2); }

bool is_reason(std::string_view text) {
  return std::ranges::any_of(kAsking, [&](const Asking& each) { return each.reason == text; });
}

std::atomic<int> signalled{0};      // the first that came; 0: none
std::atomic<int> handling{0};       // threads in the handler
std::atomic<int> confirmed_on{-1};  // descriptor that was given; -1: none
static_assert(std::atomic<int>::is_always_lock_free);

// Signals belong to the process: the first that listens installs the handlers, the last puts back what was there.
std::mutex mutex;
int listeners = 0;
std::array<struct sigaction, kAsking.size()> before;

bool is_ignored(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_IGN;
}

void set_action(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const Asking& each : kAsking) sigaddset(&action.sa_mask, each.signal);
  sigaction(signal, &action, nullptr);
}

// What comes next meets the default action, but for another SIGTERM: schedulers send several.
extern "C" void tutti_note_interrupt(int signal) {
  const int kept = errno;
  handling.fetch_add(1);
  int none = 0;
  if (signalled.compare_exchange_strong(none, signal)) {
    for (std::size_t i = 0; i < kAsking.size(); ++i)
      if (!is_ignored(before[i]) && (signal != SIGTERM || kAsking[i].signal != SIGTERM))
        set_action(kAsking[i].signal, SIG_DFL);
    const std::string_view text = kAsking[signal == SIGTERM ? 1 : 0].confirmed;
    // A sink is no function for a signal handler: `look` calls it.
    const int given = confirmed_on.load();
    if (given >= 0 || !has_log_sink()) {
      [[maybe_unused]] const auto written = write(given >= 0 ? given : STDERR_FILENO, text.data(), text.size());
    }
  }
  handling.fetch_sub(1);
  errno = kept;
}

void listen(int given) {
  const std::lock_guard lock(mutex);
  if (given >= 0 || listeners == 0) confirmed_on.store(given);
  if (listeners++ > 0) return;
  signalled.store(0, std::memory_order_relaxed);
  for (std::size_t i = 0; i < kAsking.size(); ++i) sigaction(kAsking[i].signal, nullptr, &before[i]);
  for (std::size_t i = 0; i < kAsking.size(); ++i)
    if (!is_ignored(before[i])) set_action(kAsking[i].signal, &tutti_note_interrupt);
}

void put_back() {
  for (std::size_t i = 0; i < kAsking.size(); ++i) sigaction(kAsking[i].signal, &before[i], nullptr);
}

}  // namespace

StopOnInterrupt::StopOnInterrupt(std::FILE* file) : output_(file == nullptr ? -1 : fileno(file)) {}

StopOnInterrupt::~StopOnInterrupt() { end_listening(); }

void StopOnInterrupt::before_train() {
  interrupted_ = asked_ = false;
  if (!std::exchange(listening_, true)) listen(output_);
}

void StopOnInterrupt::look() {
  if (!listening_ || asked_) return;
  const int signal = signalled.load(std::memory_order_relaxed);
  for (const Asking& each : kAsking)
    if (each.signal == signal) {
      asked_ = true;
      if (confirmed_on.load() < 0 && has_log_sink()) log_message(LogLevel::info, without_line_ends(each.confirmed));
      trainer().stop(std::string(each.reason));
    }
}

// Several processes go by what they have agreed on. A signal that came after that is passed on to whoever hears it
// next; another trainer that listens has heard it.
void StopOnInterrupt::after_train() {
  const int signal = listening_ ? signalled.load(std::memory_order_relaxed) : 0;
  const std::optional<std::string> late = trainer().late_stop();
  interrupted_ = is_reason(trainer().stop_reason()) || (late ? is_reason(*late) : signal != 0);
  const bool nobody_listens = end_listening();
  if (nobody_listens && late && signal != 0 && !asked_ && !interrupted_) std::raise(signal);
}

bool StopOnInterrupt::end_listening() noexcept {
  if (!std::exchange(listening_, false)) return false;
  const std::lock_guard lock(mutex);
  if (--listeners > 0) return false;
  put_back();
  while (handling.load() > 0) std::this_thread::yield();  // a handler that runs may set the default action yet
  put_back();
  return true;
}

}  // namespace tutti
