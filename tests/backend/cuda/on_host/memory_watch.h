// SPDX-License-Identifier: Apache-2.0
#pragma once

// Sees each access of kernels to memory. The compiler calls it, by the instrumentation that it makes for
// ThreadSanitizer, without whose library the test is linked. A Fault are: memory that is neither shared, nor an array
// that the test lends; a write to an array lent for reading; shared memory read that the block has not written; two
// threads at one place, one of which writes, that no barrier orders. In builds with sanitizers, whose instrumentation
// is theirs, nothing calls it.

#include <cstddef>
#include <cstdint>

namespace tutti::on_host {

enum class Lending : std::uint8_t { reading, writing, racing };  ///< racing: threads may overwrite each other's

/// Lends memory to kernels as long as it lives. `name` outlives it.
class LentMemory {
 public:
  LentMemory(const char* name, const void* data, std::size_t bytes, Lending);
  ~LentMemory();
  LentMemory(const LentMemory&) = delete;
  LentMemory& operator=(const LentMemory&) = delete;

 private:
  const void* data_;
};

}  // namespace tutti::on_host
