// SPDX-License-Identifier: Apache-2.0
// Signals to the launcher, and what becomes of them.
#include <tutti/tests/command/running_program.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti::testing;

namespace {

void wait_for_all(RunningProgram& launcher, const std::string& text) {
  launcher.wait_for("[0] " + text);
  launcher.wait_for("[1] " + text);
}

// Where the launcher keeps its secret.
std::filesystem::path secret_of(const RunningProgram& launcher) {
  const std::size_t at = launcher.output.find("secret=");
  REQUIRE(at != std::string::npos);
  return launcher.output.substr(at + 7, launcher.output.find(',', at) - at - 7);
}

}  // namespace

TEST_CASE("launch: signals reach every process") {
  for (const auto& [signal, name] : {std::pair{SIGINT, "INT"},
                                     {SIGTERM, "TERM"},
                                     {SIGHUP, "HUP"},
                                     {SIGQUIT, "QUIT"},
                                     {SIGUSR1, "USR1"},
                                     {SIGUSR2, "USR2"}}) {
    CAPTURE(name);
    RunningProgram launcher(launch_script({"-n", "2"}, std::string("trap 'echo checkpoint; exit 0' ") + name +
                                                           "; echo ready; while :; do sleep 0.05; done"));
    wait_for_all(launcher, "ready\n");
    launcher.send(signal);
    CHECK(launcher.end() == 0);
    CHECK(contains(launcher.output, "[0] checkpoint\n"));
    CHECK(contains(launcher.output, "[1] checkpoint\n"));
    CHECK(!contains(launcher.error, "failed"));
  }
}

TEST_CASE("launch: a job that a signal ends has that status, and leaves no secret") {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    CAPTURE(signal);
    RunningProgram launcher(launch_script({"-n", "2"}, "echo secret=$TUTTI_SECRET_FILE,; exec sleep 600"));
    wait_for_all(launcher, "secret=");
    launcher.wait_for(",\n");
    const std::filesystem::path secret = secret_of(launcher);
    CHECK(std::filesystem::exists(secret));
    launcher.send(signal);
    CHECK(launcher.end() == 128 + signal);
    CHECK(!std::filesystem::exists(secret.parent_path()));
    CHECK(contains(launcher.error, "tutti launch: the job ended after signal " + std::to_string(signal)));
    CHECK(!contains(launcher.error, "was killed by"));
  }
}

TEST_CASE("launch: a second signal ends the job with SIGTERM, and with SIGKILL after the grace time") {
  RunningProgram launcher(
      launch_script({"-n", "2", "--grace", "0.3"},
                    "trap 'echo once' INT; trap 'echo term' TERM; echo ready; while :; do sleep 0.05; done"));
  wait_for_all(launcher, "ready\n");
  launcher.send(SIGINT);
  wait_for_all(launcher, "once\n");
  launcher.send(SIGINT);
  CHECK(launcher.end() == 137);
  CHECK(contains(launcher.output, "[0] term\n"));
  CHECK(contains(launcher.output, "[1] term\n"));
  CHECK(count_of(launcher.output, "once\n") == 2);
}

TEST_CASE("launch: signals that were ignored when it was started stay so") {
  RunningProgram launcher({"/bin/sh", "-c",
                           "trap '' HUP; exec " TUTTI_COMMAND
                           " launch -- /bin/sh -c 'echo ready; sleep 0.5; grep SigIgn /proc/self/status'"});
  launcher.wait_for("ready\n");
  launcher.send(SIGHUP);
  CHECK(launcher.end() == 0);
  CHECK(contains(launcher.output, "SigIgn:\t0000000000000001"));
  CHECK(launcher.error.empty());
}

TEST_CASE("launch: SIGCHLD that is ignored where it comes from costs no status") {
  RunningProgram launcher({"/bin/sh", "-c", "trap '' CHLD; exec " TUTTI_COMMAND " launch -- /bin/sh -c 'exit 9'"});
  CHECK(launcher.end() == 9);
}

TEST_CASE("launch: Ctrl-Z stops all, and continuing the launcher continues all") {
  RunningProgram launcher(
      launch_script({"-n", "2", "--grace", "60"},
                    "trap 'echo on' CONT; echo ready; i=0; while [ $i -lt 2000 ]; do sleep 0.05; i=$((i+1)); done"));
  wait_for_all(launcher, "ready\n");
  launcher.send(SIGTSTP);
  int status = 0;
  REQUIRE(waitpid(launcher.pid(), &status, WUNTRACED) == launcher.pid());
  REQUIRE(WIFSTOPPED(status));
  CHECK(!contains(launcher.output, "on\n"));
  launcher.send(SIGCONT);
  wait_for_all(launcher, "on\n");
  launcher.send(SIGTERM);
  CHECK(launcher.end() == 143);
}

TEST_SUITE_END();
