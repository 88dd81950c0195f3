// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace tutti {

inline constexpr std::size_t kHugePage = std::size_t{2} << 20U;

/// Memory from the C library's heap, whole huge pages, for which the system is asked to use such ones: fewer page
/// faults, and fewer pages for the processor to look up. Null: there is none. `std::free` gives it back.
void* memory_on_huge_pages(std::size_t bytes) noexcept;

}  // namespace tutti
