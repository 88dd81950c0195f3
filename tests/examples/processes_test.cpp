// SPDX-License-Identifier: Apache-2.0
// The examples in several processes, by their option and under the launcher. TUTTI_COMMAND names it.
#include <tutti/tests/command/running_program.h>
#include <tutti/tests/examples/program.h>
#include <tutti/tests/exchange/temporary_folder.h>

#include <nlohmann/json.hpp>

#include <csignal>
#include <filesystem>
#include <sstream>
#include <vector>

using namespace tutti::testing;

namespace {

constexpr int kInterrupted = 130;

/// The values of each line of a file of metrics that do not tell times.
std::vector<nlohmann::json> metrics(const std::string& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    nlohmann::json kept;
    for (const char* name : {"epoch", "iteration", "loss", "accuracy", "validation_accuracy", "total_loss"})
      if (json.contains(name)) kept[name] = json.at(name);
    lines.push_back(kept);
  }
  return lines;
}

nlohmann::json last_line(const std::string& path) {
  std::ifstream file(path);
  nlohmann::json last;
  for (std::string line; std::getline(file, line);) last = nlohmann::json::parse(line);
  return last;
}

/// What `tutti report` makes of the trace of a run in that folder: the share of reductions that the first process hid.
double hidden_by_report(const std::string& run) {
  const Outcome outcome = run_program(
      "python3 -c 'import sys; sys.path.insert(0, \"command/report\"); import trace_file; "
      "print(\"hidden\", trace_file.read_trace(open(sys.argv[1]).read())[\"hidden\"][0][\"own\"])' " +
      run + "/trace.json");
  return number_after(outcome.output, "hidden ");
}

std::string text_file(const TemporaryFolder& folder) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "one for the money, two for the show, three to get ready and four to go\n";
  write_file(folder.file("text.txt"), text);
  return folder.file("text.txt");
}

std::string text(const TemporaryFolder& folder, const std::string& output, const std::string& arguments) {
  return std::string(TUTTI_TEXT) + " --text " + text_file(folder) +
         " --batch 2 --context 16 --features 16 --heads 2 --layers 1 --dropout 0.2 --report-every 2"
         " --checkpoint-every 4 --sample 5 --output " +
         folder.file(output) + " " + arguments;
}

}  // namespace

TEST_CASE("processes: digits in two processes is digits on two devices of one, and one writes") {
  const TemporaryFolder folder;
  const std::string digits = std::string(TUTTI_DIGITS) + " --epochs 2 --output ";
  const Outcome one = run_program(digits + folder.file("one") + " --devices 2");
  const Outcome two = run_program(digits + folder.file("two") + " --devices 1 --processes 2");
  const Outcome launched =
      run_program(std::string(TUTTI_COMMAND) + " launch -n 2 -- " + digits + folder.file("launched") + " --devices 1");
  CAPTURE(one.output);
  CAPTURE(two.output);
  CAPTURE(launched.output);
  CHECK(one.code == 0);
  CHECK(two.code == 0);
  CHECK(launched.code == 0);
  const auto expected = metrics(folder.file("one/metrics.jsonl"));
  REQUIRE(expected.size() == 3);
  CHECK(metrics(folder.file("two/metrics.jsonl")) == expected);
  CHECK(metrics(folder.file("launched/metrics.jsonl")) == expected);
  CHECK(number_after(two.output, "reduction ") > 0.0);
  for (const char* run : {"one", "two"}) {
    const auto last = last_line(folder.file(std::string(run) + "/metrics.jsonl"));
    CHECK(last.at("reduction_busy_ms").get<double>() > 0.0);
    CHECK(last.contains("reduction_exposed_ms") == (run == std::string("one")));
    CHECK(last.at("reduction_hidden").get<double>() ==
          doctest::Approx(hidden_by_report(folder.file(run))).epsilon(1e-9));
  }
  CHECK(number_after(two.output, "test accuracy: ") == number_after(one.output, "test accuracy: "));
  CHECK(two.output.find("[1]") == std::string::npos);
}

TEST_CASE("processes: text goes on from a checkpoint with another number of processes, to the same figures") {
  const TemporaryFolder folder;
  const auto train = [&](const char* output, const char* begins, const char* goes_on) {
    for (const char* part : {begins, goes_on}) {
      const Outcome outcome = run_program(text(folder, output, part));
      CAPTURE(outcome.output);
      CHECK(outcome.code == 0);
    }
    return metrics(folder.file(output) + "/log.jsonl");
  };
  const auto one = train("one", "--steps 6 --devices 2", "--steps 12 --devices 2 --resume");
  REQUIRE(one.size() > 4);
  CHECK(train("fewer", "--steps 6 --devices 1 --processes 2", "--steps 12 --devices 2 --resume") == one);
  CHECK(train("more", "--steps 6 --devices 2", "--steps 12 --devices 1 --processes 2 --resume") == one);
}

TEST_CASE("processes: the recommender in two processes is the recommender on two devices, and goes on as one") {
  const TemporaryFolder folder;
  const auto train = [&](const std::string& name, const std::string& arguments) {
    const Outcome outcome = run_program(std::string(TUTTI_RECOMMENDER) + " --hours 4 --impressions 1000 --batch 32 " +
                                        arguments + " --output " + folder.file(name));
    CAPTURE(outcome.output);
    REQUIRE(outcome.code == 0);
    return outcome.output.substr(outcome.output.find("tables"));
  };
  const std::string one = train("one", "--devices 2 --epochs 2");
  CHECK(one.find("test AUC: ") != std::string::npos);
  const auto without_rank = [](std::string text) {
    for (std::size_t at; (at = text.find("[0] ")) != std::string::npos;) text.erase(at, 4);
    return text;
  };
  CHECK(without_rank(train("two", "--devices 1 --processes 2 --epochs 2")) == one);
  train("more", "--devices 2 --epochs 1");
  CHECK(without_rank(train("more", "--devices 1 --processes 2 --epochs 2")) == one);
}

TEST_CASE("processes: Ctrl-C to the launcher ends all after the same step, with a checkpoint that is gone on from") {
  const TemporaryFolder folder;
  std::vector<std::string> words;
  std::istringstream all(text(folder, "run", "--steps 1000000 --devices 1 --processes 2"));
  for (std::string word; all >> word;) words.push_back(word);
  {
    RunningProgram program(words);
    program.wait_for("iteration 5/");
    program.send(SIGINT);
    CHECK(program.end() == kInterrupted);
    CAPTURE(program.error);
    CHECK(program.error.find("the same command with --resume goes on there") != std::string::npos);
  }
  words.emplace_back("--resume");
  RunningProgram again(words);
  again.wait_for("resumed from " + folder.file("run"));
  again.wait_for("iteration ");
  again.send(SIGINT);
  CHECK(again.end() == kInterrupted);
}

TEST_CASE("processes: the command that starts them is looked for in PATH, too") {
  const TemporaryFolder folder;
  std::filesystem::copy_file(TUTTI_DIGITS, folder.file("digits"));
  check_refused(run_program("PATH=/bin " + folder.file("digits") + " --processes 2"), "and not in PATH");
  std::filesystem::create_directory(folder.file("bin"));
  write_file(folder.file("bin/tutti"), "#!/bin/sh\necho called as \"$@\"\n");
  std::filesystem::permissions(folder.file("bin/tutti"), std::filesystem::perms::owner_all);
  const Outcome found =
      run_program("PATH=/bin:" + folder.file("bin") + " " + folder.file("digits") + " --processes 2 --epochs 3");
  CHECK_MESSAGE(found.output.find("called as launch -n 2 -- " + folder.file("digits") + " --processes 2 --epochs 3") !=
                    std::string::npos,
                found.output);
}

TEST_CASE("processes: a number that cannot be, or differs from the launcher's") {
  check_refused(run_program(std::string(TUTTI_DIGITS) + " --processes 0"), "--processes 0: at least one");
  const std::string place = "TUTTI_RANK=0 TUTTI_WORLD_SIZE=2 TUTTI_RENDEZVOUS=127.0.0.1:1 ";
  check_refused(run_program(place + TUTTI_DIGITS + " --processes 3"), "has started 2");
}
