// SPDX-License-Identifier: Apache-2.0
// Every order of what devices may say, within the bounds of docs/project/proofs.md.
#include <tutti/tests/distributed/ledger/ledger_search.h>
#include <tutti/tests/sanitizers.h>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti::testing;

TEST_CASE("sync_ledger search: every registration, order, failure and leave") {
  std::size_t states = 0;
  for (const SearchBounds& bounds : proof_bounds(kIsSanitized ? ProofSize::small : ProofSize::routine)) {
    try {
      states += search_ledger(bounds).states;
    } catch (const Violation& violation) {
      FAIL_CHECK(to_string(bounds), "\n", to_string(violation.property), ": ", violation.what());
    }
  }
  MESSAGE("states: ", states);
  CHECK(states > 10'000);
}

TEST_SUITE_END();
