// SPDX-License-Identifier: Apache-2.0
// The recommender as a user meets it: the built program on its own log. TUTTI_RECOMMENDER names it.
#include <tutti/tests/examples/program.h>
#include <tutti/tests/exchange/temporary_folder.h>

using namespace tutti::testing;

namespace {

const std::string kProgram = TUTTI_RECOMMENDER;

Outcome recommender(const std::string& arguments) { return run_program(kProgram + " " + arguments); }

/// What is said of the result, without speeds.
std::string result_of(const Outcome& outcome) {
  CAPTURE(outcome.output);
  REQUIRE(outcome.code == 0);
  return outcome.output.substr(outcome.output.find("tables"));
}

}  // namespace

TEST_CASE("recommender: comes close to the best that the log allows, on one device and on two") {
  for (const std::string devices : {"1 --batch 256", "2 --batch 128"}) {
    const TemporaryFolder folder;
    const Outcome outcome = recommender("--output " + folder.file("run") + " --devices " + devices);
    CAPTURE(outcome.output);
    REQUIRE(outcome.code == 0);
    const double best = number_after(outcome.output, "of the true probabilities: ");
    CHECK(best > 0.75);
    CHECK(number_after(outcome.output, "test AUC: ") > best - 0.01);
    CHECK(number_after(outcome.output, "test AUC: ") < best + 0.01);
    CHECK(std::filesystem::exists(folder.file("run/metrics.jsonl")));
  }
}

namespace {

/// Kills it `milliseconds` after so many checkpoints are on the disk. False: it had come to its end.
bool kill_after(int checkpoints, int milliseconds, const std::string& arguments, const std::string& folder) {
  const std::string whole = "ls -d '" + folder + "'/checkpoint-* 2>/dev/null | grep -vc '[.]tmp$'";
  const Outcome outcome =
      run_program("{ " + kProgram + " " + arguments + " & run=$!; while [ $(" + whole + ") -lt " +
                  std::to_string(checkpoints) + " ] && kill -0 $run; do sleep 0.01; done; sleep " +
                  std::to_string(milliseconds / 1000.0) + "; kill -9 $run; wait $run; echo \"ended with $?\"; }");
  CAPTURE(outcome.output);
  REQUIRE(outcome.output.find("ended with ") != std::string::npos);
  return outcome.output.find("ended with 137") != std::string::npos;  // 128 + SIGKILL
}

}  // namespace

TEST_CASE("recommender: killed at any time and run again, it ends with the same figures") {
  const std::string small = " --hours 6 --impressions 2000 --epochs 1 --batch 32 --output ";
  const TemporaryFolder folder;
  const std::string expected = result_of(recommender(small + folder.file("whole")));
  int kills = 0;
  for (const auto& [checkpoints, milliseconds] : {std::pair{0, 0}, {1, 0}, {1, 25}, {2, 10}, {2, 0}}) {
    const std::string run = folder.file("killed-" + std::to_string(checkpoints) + "-" + std::to_string(milliseconds));
    if (!kill_after(checkpoints, milliseconds, small + run, run)) continue;
    ++kills;
    const Outcome again = recommender(small + run);
    CHECK((again.output.find("went on from") != std::string::npos) == (checkpoints > 0));
    CHECK(result_of(again) == expected);
  }
  CHECK(kills >= 3);
  check_refused(recommender(" --hours 6 --impressions 2000 --epochs 1 --batch 16 --output " + folder.file("whole")),
                "--batch 32, not --seed");
  const Outcome again = recommender(small + folder.file("whole"));  // there is nothing left to do
  CHECK(again.output.find("went on from") != std::string::npos);
  CHECK(result_of(again) == expected);
}

TEST_CASE("recommender: bad arguments are refused in one line") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& arguments, const std::string& problem) {
    CAPTURE(arguments);
    check_refused(recommender("--output " + folder.file("run") + " " + arguments), problem);
  };
  refused("--devices 0", "--devices 0");
  refused("--hours 0", "--hours 0");
  refused("--impressions 0", "--impressions 0");
  refused("--features 0", "--features 0");
  refused("--epochs 0", "train_epoch is 0");
  refused("--batch 0", "--batch 0");
  refused("--batch 9000000", "--batch 9000000: 2 devices");
  refused("--learning-rate nan", "learning rate");
  refused("--seed -1", "--seed");
}
