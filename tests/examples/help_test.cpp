// SPDX-License-Identifier: Apache-2.0
// The examples' options as `./dev demo --help` shows them without building anything: examples/help has the programs'
// own texts.
#include <tutti/tests/examples/program.h>

#include <string>

using namespace tutti::testing;

TEST_CASE("examples: the kept texts of --help are the programs'") {
  struct Example {
    const char* name;
    const char* program;
  };
  const Example examples[] = {
      {"digits", TUTTI_DIGITS}, {"recommender", TUTTI_RECOMMENDER}, {"resume", TUTTI_RESUME}, {"text", TUTTI_TEXT}};
  for (const Example& example : examples) {
    const std::string program = example.program;
    const std::string path = std::string("examples/help/") + example.name + ".txt";
    std::ifstream file(path);
    const std::string kept((std::istreambuf_iterator<char>(file)), {});
    const Outcome outcome = run_program(program + " --help");
    INFO("write it anew: ", program, " --help > ", path);
    CHECK(outcome.code == 0);
    CHECK(kept == outcome.output);
  }
}
