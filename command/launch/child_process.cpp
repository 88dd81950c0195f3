// SPDX-License-Identifier: Apache-2.0
#include <tutti/command/launch/child_process.h>

#include <tutti/command/launch/launch_error.h>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

namespace tutti::launch {

namespace {

struct Pipe {
  FileDescriptor reader;
  FileDescriptor writer;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) raise_errno("make a pipe");
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

void read_without_waiting(const FileDescriptor& file) {
  const int flags = fcntl(file.number(), F_GETFL);
  if (flags < 0 || fcntl(file.number(), F_SETFL, flags | O_NONBLOCK) != 0) raise_errno("read a pipe without waiting");
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));  // exec does not write
  pointers.push_back(nullptr);
  return pointers;
}

/// What a child does between fork and its program: nothing that allocates. Reports errno if it comes to nothing.
struct Start {
  char* const* arguments;
  char* const* environment;
  const SignalMask& signals;
  pid_t launcher;
  int input;
  int output;
  int error;
  int failure;  // pipe for errno; closed by exec

  [[noreturn]] void run() const noexcept {
    if (prepare()) execvpe(arguments[0], arguments, environment);
    const int reason = errno;
    [[maybe_unused]] const ssize_t count = write(failure, &reason, sizeof reason);
    _exit(kCannotExecute);
  }

  bool prepare() const noexcept {
    if (setpgid(0, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return false;
    // A launcher that died before the call above is noticed by its absence.
    if (getppid() != launcher) _exit(kCannotExecute);
    if (dup2(input, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 || dup2(error, STDERR_FILENO) < 0)
      return false;
    signals.undo_in_child();
    return true;
  }
};

[[noreturn]] void raise_not_started(const std::string& name, int error) {
  std::string reason = std::strerror(error);
  const bool is_path = name.find('/') != std::string::npos;
  if (error == ENOENT && is_path && access(name.c_str(), F_OK) == 0) {
    reason = "it is there, but the interpreter or loader that it names is not";
  } else if (error == ENOENT && !is_path) {
    reason = "not found in PATH";
  }
  throw LaunchError(error == ENOENT ? kNotFound : kCannotExecute, fmt::format("cannot start {}: {}", name, reason));
}

}  // namespace

ChildProcess start_child(const std::vector<std::string>& program, const std::vector<std::string>& environment,
                         const SignalMask& signals) {
  Pipe output = make_pipe();
  Pipe error = make_pipe();
  Pipe failure = make_pipe();
  read_without_waiting(output.reader);
  read_without_waiting(error.reader);
  const FileDescriptor input(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!input) raise_errno("open /dev/null");
  const std::vector<char*> arguments = pointers(program);
  const std::vector<char*> variables = pointers(environment);
  const Start start{
      arguments.data(),      variables.data(),       signals, getpid(), input.number(), output.writer.number(),
      error.writer.number(), failure.writer.number()};
  const pid_t pid = fork();
  if (pid < 0) raise_errno("start a process");
  if (pid == 0) start.run();
  setpgid(pid, pid);  // here too, so that the group is there whoever comes first; fails once the program runs
  failure.writer.reset();
  // Ends by the child's exec or death, whichever comes first; signals wait that long.
  int reason = 0;
  ssize_t count = 0;
  while ((count = read(failure.reader.number(), &reason, sizeof reason)) < 0 && errno == EINTR) {
  }
  if (count == static_cast<ssize_t>(sizeof reason)) {
    waitpid(pid, nullptr, 0);
    raise_not_started(program.front(), reason);
  }
  return {.pid = pid, .output = std::move(output.reader), .error = std::move(error.reader)};
}

}  // namespace tutti::launch
