// SPDX-License-Identifier: Apache-2.0
// What processes write, on its way to the launcher's own outputs.
#include <tutti/tests/command/running_program.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti::testing;

namespace {

// Each process writes that many lines of 90 bytes.
std::string many_lines(int lines) {
  return "i=0; while [ $i -lt " + std::to_string(lines) +
         " ]; do printf '%06d abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz1234\\n' "
         "$i;"
         " i=$((i+1)); done";
}

// All lines are there, in each process's order, and whole.
void check_many_lines(const std::string& output, int ranks, int lines) {
  std::map<std::string, int> next;
  for (const std::string& line : lines_of(output)) {
    REQUIRE_MESSAGE(line.size() == 93, line);
    const std::string number = std::to_string(next[line.substr(0, 4)]++);
    REQUIRE_MESSAGE(line.substr(4, 7) == std::string(6 - number.size(), '0') + number + " ", line);
    REQUIRE_MESSAGE(line.ends_with("xyz1234"), line);
  }
  CHECK(next.size() == static_cast<std::size_t>(ranks));
  for (const auto& [rank, count] : next) CHECK_MESSAGE(count == lines, rank);
}

}  // namespace

TEST_CASE("launch: standard output goes there, standard error there, and last lines are completed") {
  RunningProgram launcher(launch_script({"-n", "2"}, "echo out; echo err >&2; printf half; printf broken >&2"));
  CHECK(launcher.end() == 0);
  for (const std::string rank : {"[0] ", "[1] "}) {
    CHECK(contains(launcher.output, rank + "out\n"));
    CHECK(contains(launcher.output, rank + "half\n"));
    CHECK(contains(launcher.error, rank + "err\n"));
    CHECK(contains(launcher.error, rank + "broken\n"));
  }
  CHECK(lines_of(launcher.output).size() == 4);
  CHECK(lines_of(launcher.error).size() == 4);
}

TEST_CASE("launch: prefixes are of one width, or none") {
  RunningProgram launcher(launch_script({"-n", "11"}, "echo x"));
  CHECK(launcher.end() == 0);
  CHECK(contains(launcher.output, "[ 9] x\n"));
  CHECK(contains(launcher.output, "[10] x\n"));
  RunningProgram plain(launch_script({"-n", "2", "--no-prefix"}, "printf x"));
  CHECK(plain.end() == 0);
  CHECK(plain.output == "x\nx\n");
}

TEST_CASE("launch: lines of both outputs stay whole in one file") {
  auto words = launch_script({"-n", "4"}, "(" + many_lines(300) + ")& (" + many_lines(300) + ") >&2; wait");
  words.insert(words.begin(), {"/bin/sh", "-c", "exec \"$@\" 2>&1", "sh"});
  RunningProgram launcher(words);
  CHECK(launcher.end() == 0);
  const auto lines = lines_of(launcher.output);
  CHECK(lines.size() == 4 * 600);
  for (const std::string& line : lines) REQUIRE_MESSAGE((line.size() == 93 && line.ends_with("xyz1234")), line);
}

TEST_CASE("launch: a reader that is slow loses nothing, and holds the processes up") {
  constexpr int kLines = 15'000;  // 1.4 MB of each
  RunningProgram launcher(launch_script({"-n", "3"}, many_lines(kLines) + "; echo ended >&2"));
  launcher.output_held = true;
  CHECK(launcher.is_silent(500));  // none of them has ended
  launcher.output_held = false;
  CHECK(launcher.end() == 0);
  check_many_lines(launcher.output, 3, kLines);
  CHECK(count_of(launcher.error, "ended\n") == 3);
}

TEST_CASE("launch: while nobody reads, the processes wait, and signals and errors go on") {
  RunningProgram launcher(
      launch_script({"-n", "2"}, "trap 'echo asked >&2; kill $!; exit 7' TERM; yes 0123456789 & echo begun >&2; wait"));
  launcher.output_held = true;
  launcher.wait_for("[0] begun");
  launcher.wait_for("[1] begun");
  CHECK(launcher.is_silent(300));
  launcher.send(SIGTERM);
  launcher.wait_for("[0] asked");
  launcher.wait_for("[1] asked");
  launcher.wait_for("tutti launch: the job ended after signal 15 (Terminated); then rank ");
  launcher.output_held = false;
  CHECK(launcher.end() == 7);
  CHECK(launcher.output.size() < (std::size_t{8} << 20));  // what waited in pipes and in the launcher
  for (const std::string& line : lines_of(launcher.output))
    REQUIRE_MESSAGE((line.ends_with("] 0123456789") || launcher.output.ends_with(line + "\n")), line);
}

TEST_CASE("launch: a reader that has gone ends the job") {
  RunningProgram launcher(launch_script({"-n", "2"}, "echo ready; while :; do echo more; sleep 0.01; done"));
  launcher.wait_for("[0] ready");
  launcher.close_output();
  CHECK(launcher.end() == 128 + SIGPIPE);
  CHECK(contains(launcher.error, "tutti launch: standard output: Broken pipe: the job ends\n"));
}

TEST_CASE("launch: lines that are too long come in pieces") {
  RunningProgram launcher(launch_script({}, "head -c 200000 /dev/zero | tr '\\0' x; echo; echo next"));
  CHECK(launcher.end() == 0);
  const auto lines = lines_of(launcher.output);
  REQUIRE(lines.size() == 5);
  for (std::size_t i = 0; i < 3; ++i) CHECK(lines[i] == "[0] " + std::string(65536, 'x'));
  CHECK(lines[3] == "[0] " + std::string(200000 - 3 * 65536, 'x'));
  CHECK(lines[4] == "[0] next");
}

TEST_CASE("launch: it starts without standard files") {
  auto words = launch_script({"-n", "2"}, "echo x; exit 5");
  words.insert(words.begin(), {"/bin/sh", "-c", "exec \"$@\" <&- >&-", "sh"});
  RunningProgram launcher(words);
  CHECK(launcher.end() == 5);
  CHECK(count_of(launcher.error, ") ended with status 5\n") == 2);
}

TEST_SUITE_END();
