// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/command/running_program.h>
#include <tutti/version.h>

#include <string>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti::testing;

namespace {

void check_refused(std::vector<std::string> words, int status, const std::string& problem) {
  words.insert(words.begin(), TUTTI_COMMAND);
  RunningProgram program(words);
  CHECK(program.end() == status);
  CAPTURE(program.error);
  CHECK(program.output.empty());
  CHECK(lines_of(program.error).size() == 1);
  CHECK(contains(program.error, problem));
}

}  // namespace

TEST_CASE("command: --version is the project's") {
  RunningProgram program({TUTTI_COMMAND, "--version"});
  CHECK(program.end() == 0);
  CHECK(program.output == "tutti " TUTTI_VERSION "\n");
  CHECK(program.error.empty());
}

TEST_CASE("command: --help names the subcommands, and theirs every option") {
  RunningProgram program({TUTTI_COMMAND, "--help"});
  CHECK(program.end() == 0);
  CHECK(contains(program.output, "Usage: tutti [OPTIONS] SUBCOMMAND"));
  CHECK(contains(program.output, "\n  launch "));
  CHECK(contains(program.output, "\n  info "));
  CHECK(contains(program.output, "\n  bench "));
  CHECK(contains(program.output, "\n  convert "));
  CHECK(contains(program.output, "\n  report "));

  RunningProgram launch({TUTTI_COMMAND, "launch", "--help"});
  CHECK(launch.end() == 0);
  CHECK(contains(launch.output, "Usage: tutti launch [OPTIONS] -- PROGRAM [ARGUMENTS]\n"));
  for (const char* part :
       {"-n,--processes N ", "--hosts N ", "--host N ", "--rendezvous HOST:PORT ", "--secret-file FILE ", "--job NAME ",
        "--grace SECONDS ", "--no-prefix ", "--logs FOLDER ", "TUTTI_LOCAL_WORLD_SIZE", "exit status"})
    CHECK_MESSAGE(contains(launch.output, part), part);
  for (const std::string& line : lines_of(launch.output)) CHECK_MESSAGE(line.size() <= 120, line);
  CHECK(launch.error.empty());
}

TEST_CASE("command: what cannot be meant is one line, and status 2") {
  check_refused({}, 2, "tutti: A subcommand is required");
  check_refused({"dance"}, 2, "tutti: there is no command dance");
  check_refused({"launch"}, 2, "tutti launch: there is no program to start: tutti launch [OPTIONS] -- PROGRAM");
  check_refused({"launch", "--"}, 2, "there is no program to start");
  check_refused({"launch", "./train", "--epochs", "3"}, 2, "./train stands before \"--\"");
  check_refused({"launch", "--frob", "3", "--", "true"}, 2, "there is no option --frob");
  check_refused({"launch", "-n", "4x", "--", "true"}, 2, "-n: \"4x\" is no whole number");
  check_refused({"launch", "-n", "99999999999", "--", "true"}, 2, "-n: \"99999999999\"");
  check_refused({"launch", "-n", "0", "--", "true"}, 2, "-n is 0: it must be from 1 to 4096");
  check_refused({"launch", "-n", "-3", "--", "true"}, 2, "-n is -3: it must be from 1 to 4096");
  check_refused({"launch", "--grace", "nan", "--", "true"}, 2, "--grace is nan");
  check_refused({"launch", "--logs", "", "--", "true"}, 2, "--logs: \"\" is no folder");
  check_refused({"launch", "--hosts", "2", "--", "true"}, 2, "--hosts 2 needs --rendezvous");
}

TEST_SUITE_END();
