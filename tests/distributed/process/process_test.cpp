// SPDX-License-Identifier: Apache-2.0
// Groups in processes that are stopped, or fork: sync_process.cpp.
#include <tutti/tests/examples/program.h>

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

TEST_SUITE_BEGIN("cpu");

using namespace tutti::testing;

namespace {

// At most a minute; a process that hangs is killed. What the threads of a process hold when it forks is lost to its
// child, which LeakSanitizer would tell.
std::string output_of(const std::string& arguments, const std::string& environment = "") {
  const auto program =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "distributed/process/sync_process";
  const Outcome outcome = run_program(environment + " ASAN_OPTIONS=detect_leaks=0 timeout -s KILL 60 " +
                                      program.string() + " " + arguments);
  CHECK_MESSAGE(outcome.code == 0, outcome.output);
  return outcome.output;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("process: one that was stopped for longer than the deadline blames nobody") {
  const std::string output = output_of("stopped");
  CHECK_MESSAGE(contains(output, "this process stood still for"), output);
  CHECK_MESSAGE(contains(output, "deadlines begin anew"), output);
  CHECK_MESSAGE(contains(output, "device 0: nothing was wrong"), output);
  CHECK_MESSAGE(contains(output, "device 1: nothing was wrong"), output);
}

TEST_CASE("process: a group that leaves out what a launcher has started is told of once") {
  const std::string launched = "TUTTI_RANK=0 TUTTI_RENDEZVOUS=127.0.0.1:1 TUTTI_WORLD_SIZE=";
  const std::string output = output_of("launched_alone", launched + "3");
  CHECK_MESSAGE(contains(output, "1: [sync] TUTTI_WORLD_SIZE says that a launcher has started 3 processes"), output);
  CHECK_MESSAGE(contains(output, "ProcessGroup::from_environment()"), output);
  CHECK_MESSAGE(!contains(output, "2: [sync]"), output);
  CHECK_MESSAGE(!contains(output_of("launched_alone", launched + "1"), "[sync]"), "one process");
  for (const std::string& unclear : {launched + "no", std::string("PMIX_RANK=1 PMIX_NAMESPACE=prterun-head-1@1")}) {
    const std::string told = output_of("launched_alone", unclear);
    CHECK_MESSAGE(
        contains(told, "1: [sync] this GradientSync trains by itself, where a launcher may have started others"), told);
    CHECK_MESSAGE(!contains(told, "2: [sync]"), told);
  }
}

TEST_CASE("process: in a child a group can be used for nothing, and ends nevertheless") {
  const std::string output = output_of("forked_group");
  for (const char* what : {"join", "grad", "step", "fail", "leave", "barrier", "report", "close"}) {
    const auto line = output.find(std::string(what) + ": [");
    REQUIRE_MESSAGE(line != std::string::npos, what, "\n", output);
    const std::string text = output.substr(line, output.find('\n', line) - line);
    CHECK_MESSAGE(contains(text, "the group of cpu:0 was made in process "), text);
    CHECK_MESSAGE(contains(text, "is used in its child "), text);
  }
  CHECK_MESSAGE(contains(output, "destroyed a step"), output);
  CHECK_MESSAGE(contains(output, "the child ended with 0"), output);
  CHECK_MESSAGE(contains(output, "the parent trained on"), output);
}

TEST_CASE("process: in a child of one with threads, CPU devices work on the calling thread or say why not") {
  const std::string output = output_of("forked_threads", "TUTTI_CPU_ASYNC=0 TUTTI_CPU_THREADS=3");
  CHECK_MESSAGE(contains(output, "the child's sum is 2097152"), output);
  CHECK_MESSAGE(contains(output, "threads: [set_cpu_threads] the first CPU device was made in process "), output);
  CHECK_MESSAGE(contains(output, "the child's new device has threads: 1"), output);
  CHECK_MESSAGE(contains(output, "the child ended with 0"), output);
  const std::string asynchronous = output_of("forked_threads", "TUTTI_CPU_ASYNC=1");
  CHECK_MESSAGE(contains(asynchronous, "sum: [stream] asynchronous cpu:0 was made in process "), asynchronous);
  CHECK_MESSAGE(contains(asynchronous, "the child ended with 0"), asynchronous);
}
