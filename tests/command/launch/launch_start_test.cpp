// SPDX-License-Identifier: Apache-2.0
// What processes of a job are given, and what happens when they cannot be started.
#include <tutti/tests/command/launch_folder.h>
#include <tutti/tests/command/running_program.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti::testing;

namespace {

std::vector<std::string> sorted_lines(const std::string& text) {
  std::vector<std::string> lines = lines_of(text);
  std::ranges::sort(lines);
  return lines;
}

}  // namespace

TEST_CASE("launch: each process has its place, and all share secret, name and rendezvous") {
  const LaunchFolder folder;
  RunningProgram launcher(
      launch_script({"-n", "3"},
                    "echo $TUTTI_RANK/$TUTTI_WORLD_SIZE $TUTTI_LOCAL_RANK/$TUTTI_LOCAL_WORLD_SIZE;"
                    "echo shared $TUTTI_RENDEZVOUS $TUTTI_JOB $TUTTI_SECRET_FILE $(cat $TUTTI_SECRET_FILE)"));
  CHECK(launcher.end() == 0);
  CHECK(launcher.error.empty());
  const auto lines = sorted_lines(launcher.output);
  REQUIRE(lines.size() == 6);
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string rank = std::to_string(i);
    CHECK(lines[2 * i] == "[" + rank + "] " + rank + "/3 " + rank + "/3");
    CHECK(lines[2 * i + 1].substr(4) == lines[1].substr(4));
    CHECK(lines[2 * i + 1].starts_with("[" + rank + "] shared 127.0.0.1:"));
    CHECK(contains(lines[2 * i + 1], folder.path().string() + "/tutti-launch-"));
  }
  CHECK(lines[1].size() > 64 + lines[1].find("/secret "));
  CHECK(folder.empty());
}

TEST_CASE("launch: one of several hosts") {
  const LaunchFolder folder;
  const std::string secret = folder.path() / "job.secret";
  std::ofstream(secret) << "hush";
  const std::vector<std::string> options{"-n",           "2",           "--hosts",       "2",   "--host", "1",
                                         "--rendezvous", "[::1]:29400", "--secret-file", secret};
  const std::string script =
      "echo $TUTTI_RANK/$TUTTI_WORLD_SIZE $TUTTI_LOCAL_RANK $TUTTI_RENDEZVOUS $TUTTI_JOB $TUTTI_SECRET_FILE";
  {
    RunningProgram launcher(launch_script(options, script));
    std::filesystem::permissions(secret, std::filesystem::perms(0600));
    (void)launcher.end();
  }
  RunningProgram launcher(launch_script(options, script));
  CHECK(launcher.end() == 0);
  CHECK(sorted_lines(launcher.output) == std::vector<std::string>{"[2] 2/4 0 [::1]:29400 [::1]:29400 " + secret,
                                                                  "[3] 3/4 1 [::1]:29400 [::1]:29400 " + secret});
  CHECK(std::filesystem::exists(secret));
  std::filesystem::permissions(secret, std::filesystem::perms(0644));
  RunningProgram refused(launch_script(options, script));
  CHECK(refused.end() == 2);
  CHECK(contains(refused.error, "tutti launch: --secret-file " + secret + " has the mode 644"));
  CHECK(refused.output.empty());
}

TEST_CASE("launch: the program gets its arguments as they are, nothing to read, and no ignored SIGPIPE") {
  RunningProgram arguments({TUTTI_COMMAND, "launch", "--job", "mine", "--", "/bin/sh", "-c",
                            "printf '<%s>' \"$@\"; echo $TUTTI_JOB", "sh", "", "{}", "-n", "--", "a b", "--help",
                            "[1,2]"});
  CHECK(arguments.end() == 0);
  CHECK(arguments.output == "[0] <><{}><-n><--><a b><--help><[1,2]>mine\n");

  // The launcher's own input would be the terminal's, which stops processes of other groups that read it.
  RunningProgram input(launch_script({"-n", "2"}, "if read line; then echo $line; else echo nothing; fi"));
  CHECK(input.end() == 0);
  CHECK(sorted_lines(input.output) == std::vector<std::string>{"[0] nothing", "[1] nothing"});

  RunningProgram signals(launch_script({}, "grep -E '^Sig(Ign|Blk)' /proc/self/status"));
  CHECK(signals.end() == 0);
  CHECK(sorted_lines(signals.output) ==
        std::vector<std::string>{"[0] SigBlk:\t0000000000000000", "[0] SigIgn:\t0000000000000000"});

  // No pipe of the launcher's or of another process.
  const std::string list = "ls /proc/self/fd | wc -l";
  RunningProgram alone({"/bin/sh", "-c", list});
  CHECK(alone.end() == 0);
  RunningProgram files(launch_script({"-n", "3", "--no-prefix"}, list));
  CHECK(files.end() == 0);
  CHECK(files.output == alone.output + alone.output + alone.output);
}

TEST_CASE("launch: a program that cannot be started is one line") {
  const LaunchFolder folder;
  const std::string script = folder.path() / "script";
  const auto refused = [&](const std::string& program, int status, const std::string& problem) {
    RunningProgram launcher({TUTTI_COMMAND, "launch", "-n", "3", "--", program});
    CHECK(launcher.end() == status);
    CHECK(launcher.output.empty());
    CHECK(launcher.error == "tutti launch: cannot start " + program + ": " + problem + "\n");
  };
  refused("no-such-program", 127, "not found in PATH");
  refused("./no/such/program", 127, "No such file or directory");
  refused(folder.path(), 126, "Permission denied");
  std::ofstream(script) << "#!/no/such/interpreter\n";
  refused(script, 126, "Permission denied");
  std::filesystem::permissions(script, std::filesystem::perms(0700));
  refused(script, 127, "it is there, but the interpreter or loader that it names is not");
  std::filesystem::remove(script);
  CHECK(folder.empty());
}

TEST_CASE("launch: when a later process cannot be started, nothing is left of the others") {
  const LaunchFolder folder;
  const std::string program = folder.path() / "program";
  const std::string started = folder.path() / "started";
  // The first removes what the second would be. A pipe lets the launcher go on only then.
  {
    std::ofstream(program) << "#!/bin/sh\nsleep 600 & echo $! $$ >" << started << ".new; mv " << started << ".new "
                           << started << "; wait\n";
    std::filesystem::permissions(program, std::filesystem::perms(0700));
  }
  RunningProgram launcher({TUTTI_COMMAND, "launch", "-n", "4000", "--", program});
  while (!std::filesystem::exists(started)) usleep(1000);
  std::filesystem::remove(program);
  CHECK(launcher.end() == 127);
  CHECK(launcher.error == "tutti launch: cannot start " + program + ": No such file or directory\n");
  int child = 0;
  int grandchild = 0;
  std::ifstream(started) >> grandchild >> child;
  REQUIRE(child > 0);
  REQUIRE(grandchild > 0);
  CHECK(is_gone(child));
  CHECK(is_gone(grandchild));
}

TEST_CASE("launch: a system that has no more for the processes is named") {
  RunningProgram launcher({"/bin/sh", "-c", "ulimit -n 20; exec " TUTTI_COMMAND " launch -n 30 -- sleep 600"});
  CHECK(launcher.end() == 1);
  CAPTURE(launcher.error);  // what fails first depends on what it inherits
  CHECK(contains(launcher.error, "tutti launch: cannot "));
  CHECK(contains(launcher.error, ": Too many open files\n"));
  CHECK(lines_of(launcher.error).size() == 1);
}

TEST_SUITE_END();
