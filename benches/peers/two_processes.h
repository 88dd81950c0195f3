// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/benches/thread_pair.h>

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <string>

namespace tutti::bench {

/// What two ranks of a peer share besides what they measure.
struct SharedPage {
  SpinBarrier barrier;
  double seconds[2] = {};
};

/// A folder for the ranks to find each other in; gone when it ends.
class RendezvousFolder {
 public:
  RendezvousFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "tutti-peers-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::perror("mkdtemp"), std::exit(1);
    path_ = name;
  }
  ~RendezvousFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  RendezvousFolder(const RendezvousFolder&) = delete;
  RendezvousFolder& operator=(const RendezvousFolder&) = delete;
  std::string file(const char* name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

/// Runs body(rank, page) in a child process per rank, on a core of its own if `bound`. Neither outlives
/// `limit_seconds`, the parent, or a failure of the other. Returns the status for main, also when SIGTERM or SIGINT
/// asks to end, so that the caller's folders go away. To be called before anything starts a thread.
template <class Body> int run_two_processes(unsigned limit_seconds, bool bound, Body body) {
  void* memory = mmap(nullptr, sizeof(SharedPage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return std::perror("mmap"), 1;
  auto& page = *new (memory) SharedPage;

  pid_t ranks[2] = {0, 0};  // 0: not started, or ended
  const auto end = [&](pid_t& rank) {
    if (rank > 0) kill(rank, SIGKILL);
  };
  for (int rank = 0; rank < 2; ++rank) {
    ranks[rank] = fork();
    if (ranks[rank] < 0) {
      std::perror("fork");
      end(ranks[0]);
      while (wait(nullptr) > 0) {
      }
      return 1;
    }
    if (ranks[rank] != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(limit_seconds);
    int status = 0;
    try {
      if (bound) {
        const OneCore core(static_cast<std::size_t>(rank));
        body(rank, page);
      } else {
        body(rank, page);
      }
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
      status = 1;
    }
    std::fflush(nullptr);
    _exit(status);  // the peers' static objects are not ours to take down
  }

  struct sigaction interrupt {};
  interrupt.sa_handler = [](int) {};  // wait() returns then
  for (const int number : {SIGINT, SIGTERM}) sigaction(number, &interrupt, nullptr);

  int result = 0;
  for (int ended = 0; ended < 2;) {
    int status = 0;
    const pid_t pid = wait(&status);
    if (pid < 0 && errno != EINTR) return std::perror("wait"), 1;
    if (pid > 0) ++ended;
    for (pid_t& rank : ranks)
      if (rank == pid) rank = 0;
    if (pid > 0 && status == 0) continue;
    result = 1;  // a rank has failed, or we are told to end
    for (pid_t& rank : ranks) end(rank);
  }
  return result;
}

}  // namespace tutti::bench
