// SPDX-License-Identifier: Apache-2.0
#include <tutti/command/launch/signal_mask.h>

#include <tutti/command/launch/launch_error.h>

#include <sys/signalfd.h>

#include <algorithm>
#include <array>

namespace tutti::launch {

namespace {

constexpr std::array kEnds{SIGINT, SIGTERM, SIGHUP, SIGQUIT};
constexpr std::array kOthers{SIGUSR1, SIGUSR2, SIGTSTP};

void set_handler(int signal, void (*handler)(int), struct sigaction* former) noexcept {
  struct sigaction action {};
  action.sa_handler = handler;
  sigaction(signal, &action, former);  // cannot fail for these signals
}

bool is_ignored(int signal) {
  struct sigaction action {};
  sigaction(signal, nullptr, &action);
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

SignalMask::SignalMask() {
  sigset_t taken;
  sigemptyset(&taken);
  sigaddset(&taken, SIGCHLD);
  const auto add = [&](int signal) {
    if (!is_ignored(signal)) sigaddset(&taken, signal);
  };
  std::ranges::for_each(kEnds, add);
  std::ranges::for_each(kOthers, add);
  descriptor_ = FileDescriptor(signalfd(-1, &taken, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!descriptor_) raise_errno("receive signals");
  set_handler(SIGPIPE, SIG_IGN, &former_pipe_);
  set_handler(SIGXFSZ, SIG_IGN, &former_file_size_);
  set_handler(SIGCHLD, SIG_DFL, &former_child_);  // ignored, children would leave no status
  sigprocmask(SIG_BLOCK, &taken, &former_);
}

SignalMask::~SignalMask() {
  sigaction(SIGPIPE, &former_pipe_, nullptr);
  sigaction(SIGCHLD, &former_child_, nullptr);
  sigaction(SIGXFSZ, &former_file_size_, nullptr);
  sigprocmask(SIG_SETMASK, &former_, nullptr);
}

std::vector<int> SignalMask::take() {
  std::vector<int> signals;
  signalfd_siginfo info{};
  while (read(descriptor_.number(), &info, sizeof info) == static_cast<ssize_t>(sizeof info))
    signals.push_back(static_cast<int>(info.ssi_signo));
  return signals;
}

void SignalMask::undo_in_child() const noexcept {
  set_handler(SIGPIPE, SIG_DFL, nullptr);
  set_handler(SIGCHLD, SIG_DFL, nullptr);
  sigaction(SIGXFSZ, &former_file_size_, nullptr);
  sigprocmask(SIG_SETMASK, &former_, nullptr);
}

bool asks_for_end(int signal) noexcept { return std::ranges::find(kEnds, signal) != kEnds.end(); }

}  // namespace tutti::launch
