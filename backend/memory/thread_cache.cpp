// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/memory/thread_cache.h>

#include <array>
#include <bit>
#include <cstdint>

namespace tutti::detail {
namespace {

// Sanitizers follow blocks of the heap: there each object is one.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kKeeps = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
constexpr bool kKeeps = false;
#else
constexpr bool kKeeps = true;
#endif
#else
constexpr bool kKeeps = true;
#endif

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

enum class Phase : std::uint8_t { unused, open, closed };

/// What a thread keeps. It has no destructor, so that what is destroyed after it may still give back: see Closing.
struct Cache {
  std::array<Kept*, kSizes> kept{};
  std::size_t bytes = 0;
  Phase phase = Phase::unused;
};

constinit thread_local Cache cache;

/// Gives all to the heap when the thread ends. From then on the thread keeps nothing.
struct Closing {
  Closing() { cache.phase = Phase::open; }
  Closing(const Closing&) = delete;
  Closing& operator=(const Closing&) = delete;
  ~Closing() {
    cache.phase = Phase::closed;
    for (Kept*& first : cache.kept)
      while (first != nullptr) ::operator delete(std::exchange(first, first->next));
    cache.bytes = 0;
  }
  void begin() {}
};

void open_cache() {
  thread_local Closing closing;
  closing.begin();
}

}  // namespace

void* take_small_block(std::size_t bytes) {
  const std::size_t index = kKeeps ? size_index(bytes) : kSizes;
  if (index == kSizes) return ::operator new(bytes);
  Kept*& first = cache.kept[index];
  if (first == nullptr) return ::operator new(size_at(index));
  cache.bytes -= size_at(index);
  return std::exchange(first, first->next);
}

void give_small_block(void* block, std::size_t bytes) noexcept {
  const std::size_t index = kKeeps ? size_index(bytes) : kSizes;
  if (index == kSizes || cache.bytes + size_at(index) > kMostKept) return ::operator delete(block);
  if (cache.phase != Phase::open) {
    if (cache.phase == Phase::closed) return ::operator delete(block);
    open_cache();
  }
  cache.bytes += size_at(index);
  cache.kept[index] = new (block) Kept{cache.kept[index]};
}

}  // namespace tutti::detail
