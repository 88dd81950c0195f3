// SPDX-License-Identifier: Apache-2.0
// What the examples leave behind for `tutti report`.
#include <tutti/tests/examples/program.h>
#include <tutti/tests/exchange/temporary_folder.h>

#include <nlohmann/json.hpp>

#include <map>
#include <string>
#include <vector>

using namespace tutti::testing;

namespace {

/// A short run, and what its metrics call what all have.
struct Example {
  std::string program;
  std::string arguments;
  std::string metrics;
  std::vector<std::string> curves;
};

std::vector<Example> examples(const TemporaryFolder& folder) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "one for the money, two for the show, three to get ready and four to go\n";
  write_file(folder.file("text.txt"), text);
  return {
      {TUTTI_DIGITS,
       "--epochs 2",
       "metrics.jsonl",
       {"peak_memory_bytes", "images_per_second", "learning_rate", "loss", "validation_loss"}},
      {TUTTI_TEXT,
       "--text " + folder.file("text.txt") +
           " --steps 12 --batch 2 --context 16 --features 16 --heads 2 --layers 1 --report-every 4 --sample 2",
       "log.jsonl",
       {"memory", "throughput", "lr", "total_loss"}},
      {TUTTI_RECOMMENDER,
       "--hours 2 --impressions 2000 --epochs 1 --batch 32",
       "metrics.jsonl",
       {"memory", "throughput", "lr", "total_loss", "evaluation/loss", "evaluation/auc"}},
  };
}

/// How many values each name has in a file of lines.
std::map<std::string, int> counts(const std::string& path) {
  std::map<std::string, int> counted;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    for (const auto& [name, value] : json.items())
      if (value.is_number()) ++counted[name];
  }
  return counted;
}

}  // namespace

TEST_CASE("examples: a short run records curves, the steps, and what it was started with") {
  const TemporaryFolder folder;
  for (const Example& example : examples(folder)) {
    CAPTURE(example.program);
    const std::string run = folder.file("run-" + std::filesystem::path(example.program).filename().string());
    const Outcome outcome = run_program("TUTTI_CPU_THREADS=1 " + example.program + " " + example.arguments +
                                        " --devices 2 --output " + run);
    CAPTURE(outcome.output);
    REQUIRE(outcome.code == 0);
    auto counted = counts(run + "/" + example.metrics);
    for (const std::string& curve : example.curves) {
      CAPTURE(curve);
      CHECK(counted[curve] >= 2);
    }
    const auto record = nlohmann::json::parse(read_file(run + "/run.json"));
    CHECK(record.at("outcome") == "finished");
    CHECK(record.at("options").at("devices") == "2");
    CHECK(record.at("options").at("output") == run);
    CHECK_FALSE(record.at("parameters").empty());
    for (const char* const name : {"devices", "processes", "tutti", "build", "compiler", "kernels", "host", "system"})
      CHECK_FALSE(record.at("environment").at(name).get<std::string>().empty());
    CHECK(record.at("environment").at("TUTTI_CPU_THREADS") == "1");
    int backwards = 0;
    const auto trace = nlohmann::json::parse(read_file(run + "/trace.json"));
    for (const auto& event : trace.at("traceEvents"))
      if (event.value("name", "") == "backward") ++backwards;
    CHECK(backwards >= 2);
  }
}
