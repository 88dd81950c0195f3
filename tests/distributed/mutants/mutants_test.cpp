// SPDX-License-Identifier: Apache-2.0
// The proof of the ledger can fail: it finds what is wrong with each of these.
#include <tutti/tests/distributed/ledger_search.h>

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>
#include <sys/wait.h>

using namespace tutti::testing;

namespace {

struct Mutant {
  const char* name;
  const char* violated;
};

constexpr Mutant kMutants[] = {
#include "mutants.inc"
};

}  // namespace

TEST_CASE("sync_ledger mutants: the proof finds each rule that is deleted or weakened") {
  for (const Mutant& mutant : kMutants) {
    CAPTURE(mutant.name);
    const int status = std::system((TUTTI_MUTANTS "/mutant_" + std::string(mutant.name) + " >/dev/null").c_str());
    REQUIRE(WIFEXITED(status));
    CHECK_MESSAGE(WEXITSTATUS(status) != 0, "no search found it");
    CHECK(std::string(to_string(static_cast<Property>(WEXITSTATUS(status)))) == mutant.violated);
  }
}
