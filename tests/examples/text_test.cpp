// SPDX-License-Identifier: Apache-2.0
// The language models as a user meets them: the built program on a text of its own. TUTTI_TEXT names it.
#include <tutti/tests/examples/program.h>

#include <nlohmann/json.hpp>

using namespace tutti::testing;

namespace {

const std::string& folder() {
  static const std::string path = [] {
    std::string name = (std::filesystem::temp_directory_path() / "tutti-text-XXXXXX").string();
    return std::string(mkdtemp(name.data()));
  }();
  return path;
}

std::string written(const std::string& name, const std::string& contents) {
  const std::string path = folder() + "/" + name;
  std::ofstream(path, std::ios::binary) << contents;
  return path;
}

std::string rhyme() {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "one for the money, two for the show, three to get ready and four to go\n";
  return text;
}

Outcome text(const std::string& arguments) {
  return run_program(std::string(TUTTI_TEXT) + " --output " + folder() + "/out " + arguments);
}

/// What is another in each run: times, and memory.
bool is_measured(const std::string& name) {
  for (const char* const measured : {"time", "data_time", "throughput", "memory", "sync/"})
    if (name.starts_with(measured)) return true;
  return false;
}

std::vector<nlohmann::json> log_of(const std::string& output) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(output + "/log.jsonl");
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    lines.push_back(nlohmann::json::object());
    for (const auto& [name, value] : json.items())
      if (!is_measured(name)) lines.back()[name] = value;
  }
  return lines;
}

}  // namespace

TEST_CASE("text: both models learn a rhyme on two devices and can say it") {
  const std::string small = " --devices 2 --steps 400 --batch 4 --context 32 --features 32 --heads 2 --layers 1";
  for (const std::string model : {"gpt", "lstm"}) {
    const Outcome outcome = text("--text " + written("rhyme.txt", rhyme()) + " --model " + model + small +
                                 " --learning-rate 0.01 --sample 60 --prompt 'two for' --temperature 0.2");
    CAPTURE(model);
    CAPTURE(outcome.output);
    CHECK(outcome.code == 0);
    CHECK(number_after(outcome.output, "validation loss: ") < 0.7);  // of 19 characters alike: 2.9
    CHECK(outcome.output.find("two for the show") != std::string::npos);
  }
}

TEST_CASE("text: the same seed gives the same text") {
  const std::string arguments = "--text " + written("again.txt", rhyme()) +
                                " --steps 5 --batch 2 --context 16 --features 16 --heads 2 --layers 1 --dropout 0.1 "
                                "--sample 40 --devices ";
  const auto said = [&](const std::string& devices) {  // without progress and figures, which tell speeds
    const std::string program = std::string(TUTTI_TEXT) + " --output " + folder() + "/out " + arguments + devices;
    const std::string output = run_program("{ " + program + " 2>/dev/null; }").output;
    return output.substr(0, output.rfind("\n\n"));
  };
  CHECK(said("2") == said("2"));
  CHECK(said("2") != said("1"));
  CHECK(said("2").size() == 41);
}

TEST_CASE("text: a run that goes on from a checkpoint logs and says what one run does") {
  const std::string file = "--text " + written("resumed.txt", rhyme());
  const std::string small =
      " --devices 2 --batch 2 --context 16 --features 16 --heads 2 --layers 1 --dropout 0.1 "
      "--sample 40 --report-every 6 --learning-rate 1e-3 --steps 24 --checkpoint-every 10";
  const auto run = [&](const std::string& name, const std::string& more) {
    return run_program(std::string(TUTTI_TEXT) + " --output " + folder() + "/" + name + " " + file + small + more);
  };
  const Outcome whole = run("whole", "");
  CAPTURE(whole.output);
  REQUIRE(whole.code == 0);
  CHECK(whole.output.find("iteration 5/24  lr 0.000") != std::string::npos);
  const auto lines = log_of(folder() + "/whole");
  REQUIRE(lines.size() == 25);  // one for each step, and one for the evaluation behind the last
  CHECK(lines[5].contains("total_loss"));
  CHECK(lines[24].contains("evaluation/loss"));
  check_refused(run("whole", ""), "--resume");
  // As if it had been killed after its checkpoint of step 20.
  REQUIRE(run("killed", "").code == 0);
  for (const auto& entry : std::filesystem::directory_iterator(folder() + "/killed/checkpoints"))
    if (entry.path().filename().string().ends_with("step-24")) std::filesystem::remove_all(entry.path());
  const Outcome resumed = run("killed", " --resume");
  CAPTURE(resumed.output);
  CHECK(resumed.code == 0);
  CHECK(resumed.output.find("step-20") != std::string::npos);
  CHECK(log_of(folder() + "/killed") == lines);
  const auto said = [](const Outcome& outcome) {
    const auto end = outcome.output.rfind("\n\ngpt");
    const auto sample = outcome.output.substr(0, end);
    return sample.substr(sample.size() - 41);
  };
  CHECK(said(resumed) == said(whole));
  CHECK(number_after(resumed.output, "validation loss: ") == number_after(whole.output, "validation loss: "));
  CHECK(run("none", " --resume").output.find("no checkpoint in") != std::string::npos);
}

TEST_CASE("text: one step of a text without lines moves the weights, and the sample begins as the text does") {
  std::string line = rhyme();
  std::erase(line, '\n');
  const std::string arguments = "--text " + written("line.txt", line) +
                                " --devices 1 --batch 2 --context 16 --features 16 --heads 2 --layers 1 --sample 5 "
                                "--steps 1 --learning-rate ";
  const Outcome outcome = text(arguments + "0.01");
  CAPTURE(outcome.output);
  CHECK(outcome.code == 0);
  CHECK(outcome.output.find("\no") != std::string::npos);  // after the progress
  const std::string label = "validation loss: ";
  CHECK(number_after(outcome.output, label) != number_after(text(arguments + "1e-9").output, label));
}

TEST_CASE("text: GPT-2 124M trains on a text, in bf16") {
  const Outcome outcome = text("--text " + written("gpt2.txt", rhyme()) +
                               " --preset gpt2 --context 8 --devices 1 --batch 1 --steps 1 --sample 3 --autocast bf16");
  CAPTURE(outcome.output);
  CHECK(outcome.code == 0);
  CHECK(outcome.output.find(" 123659520 parameters") != std::string::npos);  // 124,439,808 with 1024 places
}

TEST_CASE("text: bad arguments and texts are refused in one line") {
  const std::string file = "--text " + written("some.txt", rhyme());
  const auto refused = [](const std::string& arguments, const std::string& problem) {
    CAPTURE(arguments);
    check_refused(text(arguments), problem);
  };
  refused("", "--text");
  refused("--text /nonexistent.txt", "/nonexistent.txt");
  refused("--text " + written("empty.txt", ""), "empty.txt");
  refused("--text " + written("short.txt", "abc"), "short.txt");
  refused(file + " --model bert", "--model bert");
  refused(file + " --preset bert", "--preset bert: there is gpt2");
  refused(file + " --preset gpt2 --model lstm", "gpt2 is a gpt, not lstm");
  refused(file + " --vocabulary 3", "--vocabulary 3: ");
  refused(file + " --autocast f16", "--autocast f16: there are f32 and bf16");
  refused(file + " --prompt '@'", "\"@\"");
  refused(file + " --steps 0", "--steps 0: at least one step");
  refused(file + " --batch 0", "--batch 0");
  refused(file + " --context 0", "--context 0");
  refused(file + " --heads 5", "heads");
  refused(file + " --devices 0", "--devices 0");
  refused(file + " --report-every 0", "--report-every 0");
  refused(file + " --checkpoint-every -1", "--checkpoint-every -1");
  refused(file + " --temperature 0", "--temperature 0");
  refused(file + " --learning-rate nan --steps 3", "learning rate");
  check_refused(run_program(std::string(TUTTI_TEXT) + " " + file + " --output /proc/nowhere"), "/proc/nowhere");
}
