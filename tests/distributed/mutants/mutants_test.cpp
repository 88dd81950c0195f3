// SPDX-License-Identifier: Apache-2.0
// The proof of the ledger can fail: it finds what is wrong with each of these.
#include <tutti/tests/distributed/ledger/ledger_search.h>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <string>
#include <sys/wait.h>

using namespace tutti::testing;

TEST_CASE("sync_ledger mutants: the proof finds each rule that is deleted or weakened") {
  std::ifstream table(TUTTI_MUTANTS "/mutants.txt");
  std::size_t mutants = 0;
  for (std::string name, violated; table >> name >> violated; ++mutants) {
    CAPTURE(name);
    const int status = std::system((TUTTI_MUTANTS "/mutant_" + name + " >/dev/null").c_str());
    REQUIRE(WIFEXITED(status));
    CHECK_MESSAGE(WEXITSTATUS(status) != 0, "no search found it");
    CHECK(std::string(to_string(static_cast<Property>(WEXITSTATUS(status)))) == violated);
  }
  CHECK(mutants > 0);
}
