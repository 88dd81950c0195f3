// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/memory/thread_cache.h>

#include <tutti/backend/memory/sanitized.h>

#include <array>
#include <bit>
#include <memory>
#include <new>
#include <utility>

namespace tutti::detail {
namespace {

constexpr std::size_t kMostKept = std::size_t{8} << 20U;

// Sizes: 64, 128, ... 1024 bytes, then four to each power of two, up to 1 MiB.
constexpr std::size_t kStep = 64;
constexpr std::size_t kFineSizes = 16;
constexpr std::size_t kSizes = kFineSizes + std::size_t{4} * 10;

/// Which of the sizes is the smallest that holds so many bytes; kSizes: none.
constexpr std::size_t size_index(std::size_t bytes) {
  if (bytes <= kStep * kFineSizes) return bytes == 0 ? 0 : (bytes - 1) / kStep;
  const auto power = static_cast<std::size_t>(std::bit_width(bytes - 1)) - 1;  // 2^power < bytes <= 2^(power + 1)
  const std::size_t quarter = ((bytes - 1) >> (power - 2)) & 3U;
  const std::size_t index = kFineSizes + 4 * (power - 10) + quarter;
  return index < kSizes ? index : kSizes;
}

constexpr std::size_t size_at(std::size_t index) {
  if (index < kFineSizes) return (index + 1) * kStep;
  const std::size_t power = 10 + (index - kFineSizes) / 4;
  return (std::size_t{1} << power) + ((index - kFineSizes) % 4 + 1) * (std::size_t{1} << (power - 2));
}

static_assert([] {
  for (std::size_t i = 0; i < kSizes; ++i)
    if (size_index(size_at(i)) != i || size_index(size_at(i) + 1) != i + 1) return false;
  return size_at(kSizes - 1) == std::size_t{1} << 20U;
}());

/// A block that nobody uses.
struct Kept {
  Kept* next;
};

/// What a thread keeps.
struct Cache {
  std::array<Kept*, kSizes> kept{};
  std::size_t bytes = 0;

  Cache() = default;
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;
  ~Cache() {
    for (Kept*& first : kept)
      while (first != nullptr) ::operator delete(std::exchange(first, first->next));
  }
};

// Of the memory that each thread has for such variables, libraries that are loaded later share little: a pointer.
constinit thread_local Cache* cache = nullptr;
constinit thread_local bool has_ended = false;

/// Gives all to the heap when the thread ends. What is given back later, by what is destroyed after it, goes there too.
struct Closing {
  Closing() : own(new(std::nothrow) Cache) { cache = own.get(); }
  Closing(const Closing&) = delete;
  Closing& operator=(const Closing&) = delete;
  ~Closing() {
    cache = nullptr;
    has_ended = true;
  }
  const std::unique_ptr<Cache> own;
};

/// The thread's cache; null where it has none, or none any more.
Cache* opened_cache() {
  if (cache == nullptr && !has_ended) {
    thread_local const Closing closing;
  }
  return cache;
}

}  // namespace

void* take_small_block(std::size_t bytes) {
  const std::size_t index = kIsSanitized ? kSizes : size_index(bytes);
  if (index == kSizes) return ::operator new(bytes);
  if (cache == nullptr || cache->kept[index] == nullptr) return ::operator new(size_at(index));
  Kept*& first = cache->kept[index];
  cache->bytes -= size_at(index);
  return std::exchange(first, first->next);
}

void give_small_block(void* block, std::size_t bytes) noexcept {
  const std::size_t index = kIsSanitized ? kSizes : size_index(bytes);
  Cache* const keeps = index < kSizes ? opened_cache() : nullptr;
  if (keeps == nullptr || keeps->bytes + size_at(index) > kMostKept) return ::operator delete(block);
  keeps->bytes += size_at(index);
  keeps->kept[index] = new (block) Kept{keeps->kept[index]};
}

}  // namespace tutti::detail
