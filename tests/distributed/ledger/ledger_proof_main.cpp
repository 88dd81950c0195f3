// SPDX-License-Identifier: Apache-2.0
// The proof as a program: linked with the shipped ledger it prints how far it holds, with a mutant what is violated.
// The status is the number of the violated property, 0 if none is.
#include <tutti/tests/distributed/ledger/ledger_search.h>

#include <chrono>
#include <cstdio>
#include <cstring>

using namespace tutti::testing;

int main(int argc, char** argv) {
  const bool whole = argc > 1 && std::strcmp(argv[1], "--whole") == 0;
  for (const SearchBounds& bounds : proof_bounds(whole ? ProofSize::whole : ProofSize::routine)) {
    const auto started = std::chrono::steady_clock::now();
    try {
      const SearchResult result = search_ledger(bounds);
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - started;
      std::printf("%s: %zu states, %zu transitions, %.1f s\n", to_string(bounds).c_str(), result.states,
                  result.transitions, seconds.count());
    } catch (const Violation& violation) {
      std::printf("%s\n%s: %s\n", to_string(bounds).c_str(), to_string(violation.property), violation.what());
      return static_cast<int>(violation.property);
    }
    std::fflush(stdout);
  }
  return 0;
}
