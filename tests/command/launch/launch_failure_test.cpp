// SPDX-License-Identifier: Apache-2.0
// Processes that fail, do not end, or leave others behind.
#include <tutti/tests/command/launch_folder.h>
#include <tutti/tests/command/running_program.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti::testing;

namespace {

// What follows the text, as a number.
int number_after(const std::string& output, const std::string& text) {
  const std::size_t at = output.find(text);
  REQUIRE_MESSAGE(at != std::string::npos, text, " in ", output);
  return std::atoi(output.c_str() + at + text.size());
}

// Waits up to a minute until a killed process has ended, which its parent need not have seen.
bool has_ended(int pid) {
  for (int i = 0; i < 6000; ++i, usleep(10'000)) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    if (contains(text, ") Z ")) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("launch: who failed first is named at the end, with the pid, and gives the status") {
  RunningProgram launcher(launch_script({"-n", "3"},
                                        "echo pid=$$\n"
                                        "[ $TUTTI_RANK = 1 ] && kill -9 $$\n"
                                        "[ $TUTTI_RANK = 0 ] && { sleep 1; echo 'rank 1 has gone' >&2; exit 3; }\n"
                                        "sleep 0.5"));
  CHECK(launcher.end() == 137);
  const std::string culprit = std::to_string(number_after(launcher.output, "[1] pid="));
  const std::string other = std::to_string(number_after(launcher.output, "[0] pid="));
  CHECK(launcher.error == "tutti launch: rank 1 (pid " + culprit +
                              ") was killed by signal 9 (Killed)\n"
                              "[0] rank 1 has gone\n"
                              "tutti launch: rank 0 (pid " +
                              other +
                              ") ended with status 3\n"
                              "tutti launch: the job failed because rank 1 (pid " +
                              culprit + ") was killed by signal 9 (Killed); then rank 0 ended with status 3\n");
}

TEST_CASE("launch: a stopped process is named beside the one that failed for it") {
  RunningProgram launcher(launch_script({"-n", "2", "--grace", "0"},
                                        "echo pid=$$,\n"
                                        "[ $TUTTI_RANK = 1 ] && kill -STOP $$\n"
                                        "sleep 1; exit 3"));
  CHECK(launcher.end() == 3);
  const std::string stopped = std::to_string(number_after(launcher.output, "[1] pid="));
  CHECK(contains(launcher.error, "ended with status 3 while rank 1 (pid " + stopped + ") was stopped by signal 19"));
}

TEST_CASE("launch: a launcher that slept knows who failed first") {
  RunningProgram launcher(launch_script({"-n", "3", "--grace", "0"}, "echo pid=$$,; exec sleep 600"));
  std::array<int, 3> pids{};
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const std::string label = "[" + std::to_string(rank) + "] pid=";
    launcher.wait_for(label);
    pids[rank] = number_after(launcher.output, label);  // whole lines come, or none
  }
  launcher.send(SIGSTOP);
  int status = 0;
  REQUIRE(waitpid(launcher.pid(), &status, WUNTRACED) == launcher.pid());
  for (const std::size_t rank : {2, 0}) {
    REQUIRE(kill(pids[rank], SIGKILL) == 0);
    REQUIRE(has_ended(pids[rank]));
  }
  launcher.send(SIGCONT);
  CHECK(launcher.end() == 137);
  CHECK(contains(launcher.error, "the job failed because rank 2 (pid " + std::to_string(pids[2]) +
                                     ") was killed by signal 9 (Killed); then rank 0 was killed by signal 9 (Killed)"));
}

TEST_CASE("launch: a process that ends well leaves the others alone") {
  RunningProgram launcher(launch_script({"-n", "3", "--grace", "0"}, "[ $TUTTI_RANK = 1 ] || sleep 0.3; echo done"));
  CHECK(launcher.end() == 0);
  CHECK(count_of(launcher.output, "done\n") == 3);
  CHECK(launcher.error.empty());
}

TEST_CASE("launch: many that end at the same time are all reaped") {
  RunningProgram launcher(launch_script({"-n", "40"}, "exit 7"));
  CHECK(launcher.end() == 7);
  CHECK(count_of(launcher.error, ") ended with status 7\n") == 40);
  CHECK(contains(launcher.error, " and 31 more\n"));
}

TEST_CASE("launch: who hangs after a failure gets SIGTERM, then SIGKILL, and so do the processes of its group") {
  RunningProgram launcher(launch_script({"-n", "3", "--grace", "0.5"},
                                        "trap 'echo asked' TERM\n"
                                        "if [ $TUTTI_RANK = 0 ]; then exit 4; fi\n"
                                        "if [ $TUTTI_RANK = 1 ]; then trap 'echo asked; exit 0' TERM; fi\n"
                                        "(trap '' TERM; while :; do sleep 600; done) & echo helper=$!,\n"
                                        "while :; do sleep 0.05; done"));
  CHECK(launcher.end() == 4);
  CHECK(contains(launcher.output, "[1] asked\n"));
  CHECK(contains(launcher.output, "[2] asked\n"));
  CHECK(
      contains(launcher.error, "tutti launch: rank 1, rank 2 still running 0.5 s after the first failure: SIGTERM\n"));
  CHECK(contains(launcher.error, "tutti launch: rank 2 still running 0.5 s after SIGTERM: SIGKILL\n"));
  CHECK(contains(launcher.error, ") ended with status 4; then rank 2 was killed by signal 9 (Killed)\n"));
  CHECK(is_gone(number_after(launcher.output, "[1] helper=")));
  CHECK(is_gone(number_after(launcher.output, "[2] helper=")));
}

TEST_CASE("launch: a stopped process hears SIGTERM") {
  RunningProgram launcher(launch_script({"-n", "2", "--grace", "0.2"},
                                        "trap 'echo asked; exit 0' TERM\n"
                                        "[ $TUTTI_RANK = 0 ] && { sleep 0.3; exit 4; }\n"
                                        "kill -STOP $$"));
  CHECK(launcher.end() == 4);
  CHECK(launcher.output == "[1] asked\n");
}

TEST_CASE("launch: what a job leaves behind ends with it") {
  RunningProgram launcher(launch_script({"-n", "2"}, "sleep 600 & echo helper=$!,"));
  CHECK(launcher.end() == 0);
  CHECK(launcher.error.empty());
  CHECK(is_gone(number_after(launcher.output, "[0] helper=")));
  CHECK(is_gone(number_after(launcher.output, "[1] helper=")));
}

TEST_CASE("launch: a process that went out of its group is not waited for, though it has the pipes") {
  RunningProgram launcher(launch_script({}, "setsid sleep 600 & echo helper=$!, ; sleep 0.3"));
  launcher.wait_for(",\n");
  const int helper = number_after(launcher.output, "[0] helper=");
  CHECK(launcher.end() == 0);
  CHECK(kill(helper, 0) == 0);
  kill(helper, SIGKILL);
}

TEST_CASE("launch: the processes die with the launcher") {
  const LaunchFolder folder;  // the launcher cannot remove its own
  RunningProgram launcher(
      launch_script({"-n", "2"}, "trap '' TERM INT HUP; echo pid=$$,; while :; do sleep 0.1; done"));
  launcher.wait_for("[0] pid=");
  launcher.wait_for("[1] pid=");
  launcher.wait_for(",\n");
  launcher.send(SIGKILL);
  CHECK(launcher.end() == RunningProgram::kSignalled + SIGKILL);
  CHECK(is_gone(number_after(launcher.output, "[0] pid=")));
  CHECK(is_gone(number_after(launcher.output, "[1] pid=")));
}

TEST_SUITE_END();
