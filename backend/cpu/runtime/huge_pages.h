// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace tutti {

inline constexpr std::size_t kHugePage = std::size_t{2} << 20U;

/// Memory from the C library's heap, whole huge pages, for which the system is asked to use such ones: fewer page
/// faults, and fewer pages for the processor to look up. Null: there is none. `std::free` gives it back.
void* memory_on_huge_pages(std::size_t bytes) noexcept;

/// Gives the pages back to the system that lie in [data, data + bytes) as a whole; the addresses stay, with zeros.
void return_whole_huge_pages(std::byte* data, std::size_t bytes) noexcept;

}  // namespace tutti
