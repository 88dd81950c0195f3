// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace tutti {

/// A number of the calling thread that no other thread of the process ever has, from 1. (std::thread::id is given again
/// once a thread has ended: the next thread would be taken for it.)
std::uint64_t this_thread_number() noexcept;

}  // namespace tutti
