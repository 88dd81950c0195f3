// SPDX-License-Identifier: Apache-2.0
// The program that kills its own training, as a user meets it. TUTTI_RESUME names it.
#include <tutti/tests/examples/program.h>

using namespace tutti::testing;

namespace {

Outcome resume(const std::string& arguments) { return run_program(std::string(TUTTI_RESUME) + " " + arguments); }

}  // namespace

TEST_CASE("resume: killed at random points, training ends bitwise as if left alone") {
  constexpr int kKills = 4;
  for (const std::string arguments : {"--devices 2 --seed 3", "--devices 1 --seed 4"}) {
    const Outcome outcome = resume(arguments + " --epochs 2 --kills 4");
    CAPTURE(outcome.output);
    CHECK(outcome.code == 0);
    const auto count = [&](const std::string& words) {
      int found = 0;
      for (std::size_t at = 0; (at = outcome.output.find(words, at)) != std::string::npos; ++at) ++found;
      return found;
    };
    // Each after a step at least. On a busy machine the last one may come after the end.
    CHECK(count("killed with SIGKILL after step") >= kKills - 1);
    CHECK(count("begun at step 0;") < kKills);  // some were resumed and killed again
    CHECK(outcome.output.find("bitwise equal") != std::string::npos);
    CHECK(number_after(outcome.output, "optimizer state, ") == 12);  // weights, biases, two moments of each
    const auto figures = [&](const std::string& label) {
      const auto begin = outcome.output.find(label) + label.size();
      return outcome.output.substr(begin, outcome.output.find('\n', begin) - begin);
    };
    CHECK(figures("left alone: ") == figures("resumed to its end: "));
    CHECK(number_after(outcome.output, "loss ") > 0);
  }
}

TEST_CASE("resume: bad arguments are refused in one line") {
  const auto refused = [](const std::string& arguments, const std::string& problem) {
    CAPTURE(arguments);
    check_refused(resume(arguments), problem);
  };
  refused("--kills 0", "--kills");
  refused("--devices 0", "--devices");
  refused("--epochs -1", "--epochs");
  refused("--data /nonexistent.csv", "/nonexistent.csv");
  refused("--unknown", "--unknown");
}
