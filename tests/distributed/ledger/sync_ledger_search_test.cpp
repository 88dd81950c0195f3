// SPDX-License-Identifier: Apache-2.0
// Every order of what devices may say, within the bounds of docs/proofs.md.
#include <tutti/tests/distributed/ledger/ledger_search.h>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti::testing;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TUTTI_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TUTTI_SANITIZED
#endif
#endif

namespace {

#ifdef TUTTI_SANITIZED
constexpr ProofSize kSize = ProofSize::small;
#else
constexpr ProofSize kSize = ProofSize::routine;
#endif

}  // namespace

TEST_CASE("sync_ledger search: every registration, order, failure and leave") {
  std::size_t states = 0;
  for (const SearchBounds& bounds : proof_bounds(kSize)) {
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
