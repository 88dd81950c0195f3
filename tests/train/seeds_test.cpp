// SPDX-License-Identifier: Apache-2.0
// docs/project/seeds.md names tests; here they are looked up.
#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>

namespace {

std::string contents(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_SUITE_BEGIN("cpu");

TEST_CASE("seeds: every test that docs/project/seeds.md names exists") {
  const std::string document = contents("docs/project/seeds.md");
  REQUIRE(document.size() > 1000);
  int named = 0;
  for (std::size_t begin = 0; (begin = document.find('`', begin)) != std::string::npos;) {
    const std::size_t end = document.find('`', begin + 1);
    REQUIRE(end != std::string::npos);
    const std::string quoted = document.substr(begin + 1, end - begin - 1);
    begin = end + 1;
    const std::size_t colon = quoted.find("_test: ");
    if (colon == std::string::npos) continue;
    ++named;
    const std::string file = "tests/" + quoted.substr(0, colon) + "_test.cpp";
    const std::string test = "\"" + quoted.substr(colon + 7);
    CHECK_MESSAGE(contents(file).find(test) != std::string::npos, file, " has no test ", test);
  }
  CHECK(named > 40);
}

TEST_SUITE_END();
