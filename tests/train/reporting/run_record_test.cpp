// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/nn/linear.h>
#include <tutti/tests/exchange/temporary_folder.h>
#include <tutti/train/reporting/run_record.h>

#include <cmath>
#include <cstdlib>

using namespace tutti;
using namespace tutti::testing;

TEST_CASE("RunRecord: what a run is started with is there at once, and no end") {
  const TemporaryFolder folder;
  const RunRecord record(folder.file("run.json"),
                         {.program = "p", .options = {{"epochs", "3"}}, .environment = {{"devices", "2"}}});
  const auto json = nlohmann::json::parse(read_file(folder.file("run.json")));
  CHECK(json.at("program") == "p");
  CHECK(json.at("options").at("epochs") == "3");
  CHECK(json.at("environment").at("devices") == "2");
  CHECK(json.at("messages").empty());
  CHECK_FALSE(json.contains("outcome"));
}

TEST_CASE("RunRecord: where it runs and with which library is told, where the program says nothing else; no secrets") {
  const TemporaryFolder folder;
  setenv("TUTTI_RECORDED", "yes\xff", 1);
  setenv("TUTTI_RECORDED_SECRET", "hunter2", 1);
  const RunRecord record(folder.file("run.json"), {.program = "p", .environment = {{"host", "of mine"}}});
  unsetenv("TUTTI_RECORDED");
  unsetenv("TUTTI_RECORDED_SECRET");
  const std::string text = read_file(folder.file("run.json"));
  const auto environment = nlohmann::json::parse(text).at("environment");
  for (const char* const name : {"tutti", "build", "compiler", "kernels", "system"})
    CHECK_FALSE(environment.at(name).get<std::string>().empty());
  CHECK(environment.at("host") == "of mine");
  CHECK(environment.at("TUTTI_RECORDED").get<std::string>().starts_with("yes"));
  CHECK(environment.at("TUTTI_RECORDED_SECRET") == "(set, not shown)");
  CHECK(text.find("hunter2") == std::string::npos);
}

TEST_CASE("RunRecord: messages, parameters with their gradients' norms, and the end") {
  const TemporaryFolder folder;
  Generator random(1);
  Linear layer(3, 2, random);
  RunRecord record(folder.file("run.json"), {.program = "p"});
  for (int i = 0; i < 202; ++i) record.add_message(LogLevel::warning, i == 0 ? "a \"word\"\xff" : "more");
  backward(sum(layer(ones({1, 3}))));
  record.set_parameters(layer.named_parameters());
  record.end(RunRecord::Outcome::failed, "no disk");
  const auto json = nlohmann::json::parse(read_file(folder.file("run.json")));
  CHECK(json.at("messages").size() == 200);
  CHECK(json.at("messages")[0].at("level") == "warning");
  CHECK(json.at("more_messages") == 2);
  const auto& weight = json.at("parameters")[0];
  CHECK(weight.at("name") == "weight");
  CHECK(weight.at("size") == 6);
  CHECK(weight.at("dtype") == "f32");
  CHECK(weight.at("gradient_norm") == doctest::Approx(std::sqrt(6.0)));
  CHECK(json.at("outcome") == "failed");
  CHECK(json.at("reason") == "no disk");
}

TEST_CASE("RunRecord: a path that cannot be written is named") {
  CHECK_THROWS_WITH_AS(RunRecord("/nonexistent/run.json", {.program = "p"}), doctest::Contains("/nonexistent/run.json"),
                       DataError);
}
