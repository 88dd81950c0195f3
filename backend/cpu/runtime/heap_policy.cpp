// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/runtime/heap_policy.h>

#include <cstdlib>
#include <string_view>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace tutti {

void keep_freed_heap() {
#if defined(__GLIBC__)
  constexpr int kServedFromHeap = 32 << 20;  // glibc's own limit for what it adapts
  const char* tunables = std::getenv("GLIBC_TUNABLES");
  const bool chosen =
      std::getenv("MALLOC_TRIM_THRESHOLD_") != nullptr || std::getenv("MALLOC_MMAP_THRESHOLD_") != nullptr ||
      (tunables != nullptr && std::string_view(tunables).find("glibc.malloc.") != std::string_view::npos);
  if (chosen) return;
  mallopt(M_MMAP_THRESHOLD, kServedFromHeap);
  mallopt(M_TRIM_THRESHOLD, 2 * kServedFromHeap);
#endif
}

}  // namespace tutti
