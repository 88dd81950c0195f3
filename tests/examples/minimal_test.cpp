// SPDX-License-Identifier: Apache-2.0
// The program that the README shows. TUTTI_MINIMAL names it.
#include <tutti/tests/examples/program.h>

#include <fstream>
#include <iterator>
#include <string>

using namespace tutti::testing;

namespace {

std::string text_of(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("minimal: learns the digits on two devices") {
  const Outcome outcome = run_program(TUTTI_MINIMAL);
  CAPTURE(outcome.output);
  CHECK(outcome.code == 0);
  CHECK(number_after(outcome.output, "test accuracy: ") > 93);
}

TEST_CASE("minimal: the README shows the part that is marked for it") {
  const std::string program = text_of("examples/minimal.cpp");
  const std::string from = "// [readme]\n";
  const std::size_t begin = program.find(from);
  const std::size_t end = program.find("// [/readme]");
  REQUIRE(begin < end);
  REQUIRE(end != std::string::npos);
  const std::string shown = program.substr(begin + from.size(), end - begin - from.size());
  REQUIRE(shown.find("struct Classifier") != std::string::npos);
  CHECK(text_of("README.md").find(shown) != std::string::npos);
}
