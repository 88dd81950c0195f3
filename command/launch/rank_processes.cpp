// SPDX-License-Identifier: Apache-2.0
#include <tutti/command/launch/rank_processes.h>

#include <tutti/command/launch/launch_error.h>

#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

namespace tutti::launch {

namespace {

// Ten seconds for those that were killed: a process that waits within the kernel may take longer, and is left.
constexpr int kMostLooks = 10'000;
constexpr useconds_t kMicrosecondsBetweenLooks = 1000;

// By its number: glibc 2.36 declares the function without its linkage for C++.
FileDescriptor open_watch(pid_t pid) {
  const int watch = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  return watch < 0 ? FileDescriptor() : FileDescriptor(watch);
}

bool has_children_in_group(pid_t group) {
  siginfo_t info{};
  return waitid(P_PGID, static_cast<id_t>(group), &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

}  // namespace

RankProcesses::RankProcesses() : watches_(epoll_create1(EPOLL_CLOEXEC)) {
  if (!watches_) raise_errno("watch processes");
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) raise_errno("become the parent of processes that others leave behind");
}

RankProcesses::~RankProcesses() {
  signal_all(SIGKILL);
  for (int i = 0; i < kMostLooks && !all_gone(); ++i) {
    if (i > 0) usleep(kMicrosecondsBetweenLooks);
    reap();
  }
}

void RankProcesses::add(pid_t pid) {
  Member& member = members_.emplace_back();
  member.pid = pid;
  member.watch = open_watch(pid);
  epoll_event event{.events = EPOLLIN | EPOLLONESHOT, .data = {.u64 = members_.size() - 1}};
  if (member.watch) epoll_ctl(watches_.number(), EPOLL_CTL_ADD, member.watch.number(), &event);
}

void RankProcesses::signal_all(int signal) const {
  for (const Member& member : members_)
    if (!member.group_gone) kill(-member.pid, signal);
}

bool RankProcesses::all_gone() const { return std::ranges::all_of(members_, &Member::group_gone); }

RankProcesses::Changes RankProcesses::reap() {
  Changes changes;
  const auto note = [&](Member& member, int status) {
    member.ended = true;
    changes.ended.emplace_back(&member - members_.data(), Ending::of(status));
  };
  int status = 0;
  epoll_event event{};
  while (epoll_wait(watches_.number(), &event, 1, 0) == 1) {
    Member& member = members_[event.data.u64];
    if (!member.ended && waitpid(member.pid, &status, WNOHANG) == member.pid) note(member, status);
  }
  // The others, whoever they are.
  for (pid_t pid = 0; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    const auto member =
        std::ranges::find_if(members_, [&](const Member& each) { return each.pid == pid && !each.ended; });
    if (member != members_.end()) note(*member, status);
  }
  for (const Member& member : members_) {
    if (member.ended) continue;
    for (siginfo_t info{}; waitid(P_PID, static_cast<id_t>(member.pid), &info, WSTOPPED | WCONTINUED | WNOHANG) == 0 &&
                           info.si_pid == member.pid;
         info = {})
      changes.stopped.emplace_back(&member - members_.data(), info.si_code == CLD_STOPPED ? info.si_status : 0);
  }
  for (Member& member : members_) {
    if (!member.ended || member.group_gone || has_children_in_group(member.pid)) continue;
    member.group_gone = true;
    changes.groups_gone.push_back(static_cast<std::size_t>(&member - members_.data()));
  }
  return changes;
}

}  // namespace tutti::launch
