// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/runtime/huge_pages.h>

#include <cstdint>
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

void return_whole_huge_pages([[maybe_unused]] std::byte* data, [[maybe_unused]] std::size_t bytes) noexcept {
#ifdef __linux__
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t first = (begin + kHugePage - 1) / kHugePage * kHugePage;
  const std::uintptr_t end = (begin + bytes) / kHugePage * kHugePage;
  if (first < end) madvise(data + (first - begin), end - first, MADV_DONTNEED);
#endif
}

}  // namespace tutti
