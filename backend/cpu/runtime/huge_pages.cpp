// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/runtime/huge_pages.h>

#include <cstdlib>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace tutti {

void* memory_on_huge_pages(std::size_t bytes) noexcept {
  const std::size_t whole = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  void* data = nullptr;
  if (posix_memalign(&data, kHugePage, whole) != 0) return nullptr;
#ifdef __linux__
  madvise(data, whole, MADV_HUGEPAGE);  // only a hint
#endif
  return data;
}

}  // namespace tutti
