// SPDX-License-Identifier: Apache-2.0
#include <tutti/command/info/host/processor_facts.h>
#include <tutti/tests/command/running_program.h>
#include <tutti/version.h>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti::testing;
using nlohmann::json;

namespace {

/// What `tutti info` says with these options, in an environment with these variables.
std::string info(const std::vector<std::string>& options = {}, const std::vector<std::string>& variables = {}) {
  std::vector<std::string> words{"/usr/bin/env"};
  words.insert(words.end(), variables.begin(), variables.end());
  words.insert(words.end(), {TUTTI_COMMAND, "info"});
  words.insert(words.end(), options.begin(), options.end());
  RunningProgram program(words);
  CHECK(program.end() == 0);
  CHECK(program.error == "");
  return program.output;
}

json info_object(const std::vector<std::string>& variables = {}) { return json::parse(info({"--json"}, variables)); }

}  // namespace

TEST_CASE("info: the text names the processor, what there is, and why there is no CUDA") {
  const std::string text = info();
  CAPTURE(text);
  if (const std::string model = tutti::info::processor_facts().model; !model.empty()) CHECK(contains(text, model));
  for (const char* part : {"\n  version ", "\n  compiler ", "\n  cpu arch ", "\n  cores allowed ",
                           "\n  products of bf16 ", "\n  CUDA ", "\n  shared memory ", "\n  MPI ", "\n  NCCL ",
                           "\n  zlib ", "\n  open files ", "\n  cgroup memory ", "\nenvironment\n"})
    CHECK_MESSAGE(contains(text, part), part);
  if (!info_object()["devices"]["CUDA"]["usable"].get<bool>()) CHECK(contains(text, "no: "));
  for (const std::string& line : lines_of(text))
    CHECK_MESSAGE((line.size() <= 118 || line.find(' ', 40) == std::string::npos), line);
}

TEST_CASE("info: --json is one object with the same facts") {
  const json report = info_object();
  for (const char* section :
       {"tutti", "system", "processor", "devices", "engines", "libraries", "limits", "environment"}) {
    CAPTURE(section);
    REQUIRE(report.contains(section));
    CHECK(report[section].is_object());
    CHECK(!report[section].contains("trouble"));
  }
  CHECK(report["tutti"]["version"] == TUTTI_VERSION);
  CHECK(report["tutti"]["options"]["cuda"].is_boolean());
  CHECK(report["tutti"]["options"].size() == 7);
  CHECK(report["devices"]["cores_allowed"].get<int>() >= 1);
  CHECK(info_object({"TUTTI_CPU_BF16=0"})["devices"]["products_of_bf16"] == "widened to f32");
  CHECK(report["processor"]["memory"]["total_bytes"].get<std::size_t>() > 1'000'000);
  const json& cuda = report["devices"]["CUDA"];
  if (!cuda["usable"].get<bool>())
    CHECK(!cuda["note"].get<std::string>().empty());
  else
    CHECK(!report["devices"]["GPU"].empty());
  CHECK(report["libraries"]["zlib"]["version"] != "");
}

TEST_CASE("info: variables of ours are shown, secrets are not") {
  const std::vector<std::string> variables{"TUTTI_SECRET=hunter2hunter2", "TUTTI_SECRET_FILE=/tmp/hunter2",
                                           "TUTTI_JOB=night run", "UNRELATED_THING=7", "TUTTI_CPU_THREADS=2"};
  const std::string text = info({}, variables);
  CAPTURE(text);
  CHECK(!contains(text, "hunter2"));
  CHECK(!contains(text, "UNRELATED_THING"));
  CHECK(contains(text, "TUTTI_SECRET "));
  CHECK(contains(text, "night run"));
  const json report = info_object(variables);
  CHECK(report["environment"]["TUTTI_SECRET"] == "(set, not shown)");
  CHECK(report["environment"]["TUTTI_JOB"] == "night run");
  CHECK(report["devices"]["threads_per_CPU_device"] == 2);
  CHECK(!contains(report.dump(), "hunter2"));
}

TEST_CASE("info: what is wrong is told, and no failure") {
  const json report = info_object({"TUTTI_CPU_THREADS=many", "TUTTI_PLUGINS=/nowhere", "TUTTI_JOB=\xff\x1b[2J"});
  CHECK(contains(report["devices"]["threads_per_CPU_device"]["trouble"], "TUTTI_CPU_THREADS"));
  CHECK(!contains(info({}, {"TUTTI_JOB=\x1b[2J"}), "\x1b"));
  if (report["tutti"]["library"] != "shared") return;
  CHECK(contains(report["devices"]["CUDA"]["note"], "there is no libtutti_cuda.so in /nowhere"));
  CHECK(contains(report["engines"]["network"]["note"], "there is no libtutti_processes.so in /nowhere"));
  CHECK(report["engines"]["MPI"]["usable"] == false);
}

TEST_CASE("info: its own help and mistakes") {
  CHECK(contains(info({"--help"}), "Usage: tutti info [OPTIONS]"));
  RunningProgram program({TUTTI_COMMAND, "info", "--frob"});
  CHECK(program.end() == 2);
  CHECK(program.output.empty());
  CHECK(contains(program.error, "tutti info: "));
  CHECK(contains(program.error, "--frob"));
}

TEST_SUITE_END();
