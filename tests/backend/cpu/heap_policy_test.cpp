// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/registry.h>
#include <tutti/tests/sanitizers.h>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdlib>

#include <sys/resource.h>

#if defined(__GLIBC__)

TEST_SUITE_BEGIN("cpu");

namespace {

// What libraries do that take their workspace anew in each call: more than glibc keeps by itself, in small pieces.
void take_and_return() {
  constexpr std::size_t kBytes = 100 << 10;
  volatile char* blocks[8];
  for (auto& block : blocks) {
    block = static_cast<volatile char*>(std::malloc(kBytes));
    for (std::size_t i = 0; i < kBytes; i += 4096) block[i] = 1;
  }
  for (auto& block : blocks) std::free(const_cast<char*>(block));
}

long page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

}  // namespace

// Sanitizers bring a malloc of their own.
TEST_CASE("heap_policy: memory that is returned and taken again causes no page faults" *
          doctest::skip(tutti::testing::kIsSanitized)) {
  if (std::getenv("GLIBC_TUNABLES") != nullptr || std::getenv("MALLOC_TRIM_THRESHOLD_") != nullptr) {
    MESSAGE("malloc is set up from outside");
    return;
  }
  tutti::synchronize(tutti::cpu(0));  // the policy comes with the first CPU device
  take_and_return();
  const long before = page_faults();
  for (int i = 0; i < 50; ++i) take_and_return();
  CHECK(page_faults() - before < 500);  // 10,000 where it goes back to the system each time
}

#endif

TEST_SUITE_END();
