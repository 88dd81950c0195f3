// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/examples/program.h>
#include <tutti/tests/exchange/temporary_folder.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti::testing;

namespace {

Outcome suite(const std::string& words) { return run_program(std::string(TUTTI_SUITE_PROGRAM) + " " + words); }

nlohmann::json json_of(const std::string& path) { return nlohmann::json::parse(read_file(path)); }

}  // namespace

TEST_CASE("bench: a program lists its cases, and measures nothing") {
  CHECK(suite("--list").output == "add/1024\nheap/3\nthrows\nthrows/3\n");
  CHECK(suite("--list '^h'").output == "heap/3\n");
  const Outcome help = suite("--help");
  CHECK(help.code == 0);
  for (const char* option :
       {"--list", "--repetitions", "--seconds", "--processor-time", "--json", "--history", "--label"})
    CHECK_MESSAGE(help.output.find(option) != std::string::npos, option);
}

TEST_CASE("bench: words that mean nothing are refused in one line") {
  for (const auto& [words, problem] : std::vector<std::pair<std::string, std::string>>{
           {"--lst", "unknown option '--lst'"},
           {"--list=yes", "--list takes no value"},
           {"a b", "one filter at most, not 'a' and 'b'"},
           {"'('", "'(' is no regular expression"},
           {"abacus", "no case matches 'abacus'"},
           {"--repetitions", "--repetitions needs a value"},
           {"--repetitions 2.5", "--repetitions takes a whole number, not '2.5'"},
           {"--repetitions=0", "--repetitions takes a number above 0, up to a million, not '0'"},
           {"--seconds soon", "--seconds takes a number above 0, up to a million, not 'soon'"}}) {
    CAPTURE(words);
    const Outcome outcome = suite(words);
    CHECK(outcome.code == 2);
    check_refused(outcome, problem);
  }
}

TEST_CASE("bench: a table and a file say what was measured") {
  const TemporaryFolder folder;
  const std::string path = folder.file("new/run.json");
  const Outcome outcome = suite("'add|heap' --repetitions 4 --seconds 0.001 --label=abc --json " + path);
  CAPTURE(outcome.output);
  REQUIRE(outcome.code == 0);
  for (const char* word : {"limits of one core: ", "GFLOP/s", "to baseline", "\nadd/1024 ", "\nheap/3 ", "wrote "})
    CHECK_MESSAGE(outcome.output.find(word) != std::string::npos, word);
  const auto run = json_of(path);
  CHECK(run.at("context").at("complete") == true);
  CHECK(run.at("context").at("label") == "abc");
  CHECK(run.at("context").at("limits").at("copies").size() == 5);
  REQUIRE(run.at("benchmarks").size() == 8);
  for (std::size_t i = 0; i < 8; ++i) {
    const auto& entry = run.at("benchmarks")[i];
    CAPTURE(entry.dump());
    const bool is_add = i < 4;
    CHECK(entry.at("name") == (is_add ? "add/1024" : "heap/3"));
    CHECK(entry.at("repetition_index") == i % 4);
    CHECK(entry.at("time_unit") == "ns");
    CHECK(entry.at("real_time").get<double>() > 0.0);
    CHECK(entry.at("iterations").get<int>() > 1);
    CHECK(entry.contains("ratio") == is_add);
    CHECK(entry.contains("FLOP/s") == is_add);
    CHECK(entry.at("array_allocations") == (is_add ? 1 : 0));
    if (!is_add) CHECK(entry.at("heap_allocations") == 3);
    if (is_add)
      CHECK(entry.at("ratio").get<double>() ==
            doctest::Approx(entry.at("real_time").get<double>() * 1e-9 / entry.at("baseline_seconds").get<double>()));
  }
}

TEST_CASE("bench: a case that throws is told, the others are measured, and the run is not complete") {
  const TemporaryFolder folder;
  const std::string path = folder.file("run.json");
  const Outcome outcome = suite("'heap|throws' --repetitions 2 --seconds 0.001 --json " + path);
  CHECK(outcome.code == 1);
  CHECK(outcome.output.find("throws: no such thing\n") != std::string::npos);
  CHECK(outcome.output.find("throws/3: it threw what is no std::exception\n") != std::string::npos);
  const auto run = json_of(path);
  CHECK(run.at("context").at("complete") == false);
  REQUIRE(run.at("benchmarks").size() == 4);
  CHECK(run.at("benchmarks")[2].at("error_message") == "no such thing");
}

TEST_CASE("bench: a file that cannot be written ends the program before anything is measured") {
  const Outcome outcome = suite("heap --json /proc/nowhere/run.json");
  CHECK(outcome.code == 1);
  CHECK(outcome.output.find("/proc/nowhere") != std::string::npos);
  CHECK(std::ranges::count(outcome.output, '\n') == 1);
}

TEST_CASE("bench: what is no regular file is not replaced, and a link's target is") {
  const TemporaryFolder folder;
  const Outcome device = suite("heap --repetitions 1 --seconds 0.001 --json /dev/null");
  CHECK(device.code == 1);
  CHECK(device.output.find("/dev/null is there, and no file that can be replaced") != std::string::npos);
  CHECK(!std::filesystem::is_regular_file("/dev/null"));
  write_file(folder.file("target"), "");
  std::filesystem::create_symlink(folder.file("target"), folder.file("link"));
  CHECK(suite("heap --repetitions 1 --seconds 0.001 --json " + folder.file("link")).code == 0);
  CHECK(std::filesystem::is_symlink(folder.file("link")));
  CHECK(json_of(folder.file("target")).at("context").at("ratio_of") == "time");
}

TEST_CASE("bench: a history has a file for each run") {
  const TemporaryFolder folder;
  for (int i = 0; i < 2; ++i)
    CHECK(suite("heap --repetitions 1 --seconds 0.001 --label 'a b/c" + std::string(300, 'x') + "' --history " +
                folder.file("runs"))
              .code == 0);
  std::size_t files = 0;
  for (const auto& each : std::filesystem::directory_iterator(folder.path() / "runs")) {
    CHECK(each.path().filename().string().find("-a-b-c") != std::string::npos);
    ++files;
  }
  CHECK(files == 2);
}
