// SPDX-License-Identifier: Apache-2.0
// The demo as a user meets it: the built program, run with good and bad arguments. TUTTI_DIGITS names it.
#include <tutti/tests/examples/program.h>

#include <nlohmann/json.hpp>

using namespace tutti::testing;

namespace {

std::string folder() {
  static const std::string path = [] {
    std::string name = (std::filesystem::temp_directory_path() / "tutti-digits-XXXXXX").string();
    return std::string(mkdtemp(name.data()));
  }();
  return path;
}

Outcome digits(const std::string& arguments) {
  return run_program(std::string(TUTTI_DIGITS) + " --output " + folder() + "/out " + arguments);
}

void check_refused(const std::string& arguments, const std::string& problem) {
  CAPTURE(arguments);
  tutti::testing::check_refused(digits(arguments), problem);
}

std::string file_with(const std::string& name, const std::string& content) {
  const std::string path = folder() + "/" + name;
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

}  // namespace

TEST_CASE("digits: bad arguments are refused in one line") {
  check_refused("--devices 0", "--devices 0");
  check_refused("--devices 5000", "cpu:");
  check_refused("--device abacus", "abacus");
  check_refused("--epochs 0", "--epochs 0");
  check_refused("--network alexnet", "--network alexnet");
  check_refused("--batch 0", "batch");
  check_refused("--batch 100000", "100000");
  check_refused("--threads-per-device 0", "0 threads");
  check_refused("--seed -1", "--seed");
  check_refused("--learning-rate nan", "learning rate");
  check_refused("--epochs many", "--epochs");
  check_refused("--unknown", "--unknown");
}

TEST_CASE("digits: bad data files are refused in one line with path and place") {
  check_refused("--data /nonexistent.csv", "/nonexistent.csv");
  check_refused("--data " + file_with("empty.csv", ""), "empty.csv");
  check_refused("--data " + file_with("short.csv", "1,2,3\n"), "short.csv");
  std::string row(64 * 2, '0');
  for (std::size_t i = 1; i < row.size(); i += 2) row[i] = ',';
  check_refused("--data " + file_with("label.csv", row + "12\n"), "label.csv");
  check_refused("--data " + file_with("text.csv", row + "1\n" + row + "x\n"), "2");
  std::ifstream real("examples/data/digits.csv.gz", std::ios::binary);
  REQUIRE(real.good());
  const std::string bytes((std::istreambuf_iterator<char>(real)), {});
  check_refused("--data " + file_with("cut.csv.gz", bytes.substr(0, bytes.size() / 2)), "cut.csv.gz");
}

TEST_CASE("digits: a short run trains, reports and writes metrics and trace") {
  for (const char* devices : {"1", "2", "3"}) {
    const Outcome outcome = digits(std::string("--epochs 4 --devices ") + devices);
    CAPTURE(outcome.output);
    REQUIRE(outcome.code == 0);
    CHECK(number_after(outcome.output, "test accuracy: ") > 85.0);
    CHECK((outcome.output.find("hidden behind backward") != std::string::npos) == (*devices != '1'));
    CHECK(outcome.output.find('\033') == std::string::npos);  // no terminal: no control characters
    std::ifstream metrics(folder() + "/out/metrics.jsonl");
    int epochs = 0;
    for (std::string line; std::getline(metrics, line);) {
      const auto json = nlohmann::json::parse(line);
      if (!json.contains("epoch")) continue;
      ++epochs;
      for (const char* name :
           {"images_per_second", "peak_memory_bytes", "step_seconds", "validation_loss", "learning_rate"})
        CHECK(json.at(name) > 0);
    }
    CHECK(epochs == 4);
    std::ifstream trace(folder() + "/out/trace.json");
    CHECK(nlohmann::json::parse(trace).at("traceEvents").size() > 20);
    std::ifstream record(folder() + "/out/run.json");
    const auto told = nlohmann::json::parse(record);
    CHECK(told.at("outcome") == "finished");
    CHECK(told.at("options").at("devices") == devices);
    CHECK(told.at("options").at("batch") == "32");
    CHECK(told.at("parameters").size() == 8);
    for (const auto& parameter : told.at("parameters")) CHECK(parameter.at("gradient_norm") > 0);
  }
  std::filesystem::remove_all(folder());
}

TEST_CASE("digits: a run that fails says so in its record") {
  CHECK(digits("--epochs 2 --learning-rate 1e30").code == 1);
  std::ifstream record(folder() + "/out/run.json");
  const auto told = nlohmann::json::parse(record);
  CHECK(told.at("outcome") == "failed");
  CHECK(told.at("reason").get<std::string>().find("--learning-rate") != std::string::npos);
  CHECK(told.at("parameters").size() == 8);
  REQUIRE_FALSE(told.at("messages").empty());  // the trainer says so
  CHECK(told.at("messages")[0].at("level") == "error");
  std::filesystem::remove_all(folder());
}

TEST_CASE("digits: the residual network learns too, with its running statistics") {
  const Outcome outcome = digits("--network resnet --epochs 2 --batch 16 --devices 2");
  CHECK(outcome.code == 0);
  CHECK(number_after(outcome.output, "test accuracy: ") > 85.0);
}

TEST_CASE("digits: the same seed gives the same accuracy, whatever the threads") {
  const auto accuracy = [](const std::string& arguments) {
    const Outcome outcome = digits("--epochs 2 --seed 5 " + arguments);
    return outcome.output.substr(outcome.output.find("test accuracy: "));
  };
  CHECK(accuracy("--threads-per-device 1") == accuracy("--threads-per-device 3"));
}
