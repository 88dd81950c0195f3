// SPDX-License-Identifier: Apache-2.0
// The program that kills its own training, as a user meets it. TUTTI_RESUME names it.
#include <tutti/tests/examples/program.h>

using namespace tutti::testing;

namespace {

Outcome resume(const std::string& arguments) { return run_program(std::string(TUTTI_RESUME) + " " + arguments); }

}  // namespace

TEST_CASE("resume: killed at random points, training ends bitwise as if left alone") {
  for (const std::string arguments :
       {"--devices 2 --epochs 2 --kills 4 --seed 3", "--devices 1 --epochs 2 --kills 2"}) {
    const Outcome outcome = resume(arguments);
    CAPTURE(outcome.output);
    CHECK(outcome.code == 0);
    CHECK(outcome.output.find("killed with SIGKILL after step") != std::string::npos);
    CHECK(outcome.output.find("bitwise equal") != std::string::npos);
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
