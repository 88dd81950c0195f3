// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/command/launch/child_process.h>
#include <tutti/command/launch/process_ending.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace tutti::launch {

/// The processes of a job on this host, and their process groups. Whoever they leave behind becomes a child of the
/// launcher, so that it sees when a group is gone, and never sends a signal to another that got the same number.
class RankProcesses {
 public:
  /// News of processes since the last question; ends in their order, as far as the kernel tells.
  struct Changes {
    std::vector<std::pair<std::size_t, Ending>> ended;  ///< places in the order of starting
    std::vector<std::pair<std::size_t, int>> stopped;   ///< signals that stopped them; 0: it goes on
    std::vector<std::size_t> groups_gone;               ///< ended, and all others of their groups too
  };

  RankProcesses();   ///< throws LaunchError
  ~RankProcesses();  ///< kills whatever is left of them, and reaps it within seconds
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  void add(pid_t);
  void signal_all(int signal) const;  ///< reaches all groups that are not gone
  Changes reap();                     ///< does not wait

 private:
  struct Member {
    pid_t pid = -1;
    FileDescriptor watch;  // pidfd; none where the kernel has none
    bool ended = false;
    bool group_gone = false;
  };

  bool all_gone() const;

  std::vector<Member> members_;
  FileDescriptor watches_;  // epoll, which lists the ended in their order
};

}  // namespace tutti::launch
