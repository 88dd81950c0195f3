// SPDX-License-Identifier: Apache-2.0
#include <tutti/command/launch/process_ending.h>

#include <tutti/command/launch/launch_error.h>

#include <sys/wait.h>

#include <cstring>

namespace tutti::launch {

Ending Ending::of(int wait_status) {
  if (WIFSIGNALED(wait_status)) return {.number = WTERMSIG(wait_status), .by_signal = true};
  return {.number = WEXITSTATUS(wait_status)};
}

bool Ending::is_for(int signal) const noexcept { return status() == kSignalled + signal; }

int Ending::status() const noexcept { return by_signal ? kSignalled + number : number; }

std::string Ending::text() const {
  return by_signal ? "was killed by " + signal_text(number) : fmt::format("ended with status {}", number);
}

std::string signal_text(int signal) { return fmt::format("signal {} ({})", signal, strsignal(signal)); }

}  // namespace tutti::launch
