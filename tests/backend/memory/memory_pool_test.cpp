// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/memory/memory_pool.h>

#include <tutti/backend/error.h>

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <unordered_map>

TEST_SUITE_BEGIN("cpu");

namespace tutti {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20U;

/// Host memory with a bound; checks that blocks come back with the size they were made with.
class BoundedMemory final : public RawMemory {
 public:
  explicit BoundedMemory(std::size_t most) : most_(most) {}
  ~BoundedMemory() override { CHECK(blocks_.empty()); }

  void* allocate(std::size_t bytes) override {
    if (held_ + bytes > most_) return nullptr;
    void* data = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    blocks_[data] = bytes;
    held_ += bytes;
    return data;
  }
  void release(void* data, std::size_t bytes) noexcept override {
    CHECK(blocks_[data] == bytes);
    blocks_.erase(data);
    held_ -= bytes;
    std::free(data);
  }

 private:
  std::size_t most_;
  std::size_t held_ = 0;
  std::unordered_map<void*, std::size_t> blocks_;
};

TEST_CASE("statistics count what is used, cached and reused") {
  BoundedMemory raw(64 * kMiB);
  MemoryPool pool(cpu(), raw);
  CHECK(pool.allocate(0) == nullptr);
  pool.release(nullptr, 0);

  void* first = pool.allocate(100);
  CHECK(reinterpret_cast<std::uintptr_t>(first) % 64 == 0);
  CHECK(pool.statistics().in_use == 128);
  CHECK(pool.statistics().reserved == 128);
  CHECK(pool.statistics().allocations == 1);
  CHECK(pool.statistics().cache_hits == 0);
  pool.release(first, 100);
  CHECK(pool.statistics().in_use == 0);
  CHECK(pool.statistics().reserved == 128);
  CHECK(pool.statistics().peak_in_use == 128);

  void* again = pool.allocate(65);  // same class
  CHECK(again == first);
  CHECK(pool.statistics().cache_hits == 1);
  pool.release(again, 65);
  pool.reset_peak();
  CHECK(pool.statistics().peak_in_use == 0);
  pool.trim();
  CHECK(pool.statistics().reserved == 0);
}

TEST_CASE("the most recently freed block is handed out first") {
  BoundedMemory raw(kMiB);
  MemoryPool pool(cpu(), raw);
  void* a = pool.allocate(64);
  void* b = pool.allocate(64);
  pool.release(a, 64);
  pool.release(b, 64);
  CHECK(pool.allocate(64) == b);
  CHECK(pool.allocate(64) == a);
  pool.release(a, 64);
  pool.release(b, 64);
}

TEST_CASE("blocks are hardly larger than asked for, and their classes never overlap") {
  BoundedMemory raw(std::size_t{1} << 40U);
  MemoryPool pool(cpu(), raw);
  std::size_t previous = 0;
  for (std::size_t bytes = 1; bytes <= 40 * kMiB; bytes += bytes < 5000 ? 1 : bytes / 37) {
    void* data = pool.allocate(bytes);
    const std::size_t block = pool.statistics().in_use;
    CHECK(block >= bytes);
    CHECK(block % 64 == 0);
    CHECK(block >= previous);
    const double waste = static_cast<double>(block - bytes) / static_cast<double>(bytes);
    if (bytes >= 1024) CHECK(waste <= 0.25);
    if (bytes >= kMiB) CHECK(waste <= 0.125);
    if (bytes < 1024) CHECK(block - bytes < 64);
    previous = block;
    pool.release(data, bytes);
    pool.trim();  // gives back blocks of the size they were made with: BoundedMemory checks
  }
}

TEST_CASE("over the limit: the error says what was asked for and held") {
  BoundedMemory raw(64 * kMiB);
  MemoryPool pool(cpu(3), raw);
  pool.set_limit(3 * kMiB);
  void* held = pool.allocate(2 * kMiB);
  CHECK_THROWS_WITH_AS(
      pool.allocate(2 * kMiB),
      "[memory] cpu:3: no room for 2.00 MiB (2097152 bytes): 2.00 MiB in use, 2.00 MiB reserved, the limit is 3.00 MiB",
      OutOfMemoryError);
  CHECK(pool.statistics().in_use == 2 * kMiB);
  void* more = pool.allocate(kMiB);  // just fits
  pool.release(more, kMiB);
  pool.release(held, 2 * kMiB);
  CHECK_THROWS_AS(pool.allocate(~std::size_t{0}), OutOfMemoryError);
}

TEST_CASE("the cache is emptied before giving up") {
  BoundedMemory raw(4 * kMiB);
  MemoryPool pool(cpu(), raw);
  void* small = pool.allocate(2 * kMiB);
  pool.release(small, 2 * kMiB);
  void* large = pool.allocate(4 * kMiB);  // only fits once the cached block is gone
  CHECK(large != nullptr);
  CHECK(pool.statistics().reserved == 4 * kMiB);
  CHECK_THROWS_WITH_AS(pool.allocate(64),
                       doctest::Contains("64 B (64 bytes): 4.00 MiB in use, 4.00 MiB reserved, no limit"),
                       OutOfMemoryError);
  pool.release(large, 4 * kMiB);
}

TEST_CASE("a pool that keeps nothing takes what it is asked for and gives it back at once") {
  BoundedMemory raw(1000);
  MemoryPool pool(cpu(), raw, MemoryPool::Keeps::nothing);
  CHECK(pool.allocate(0) == nullptr);
  pool.release(nullptr, 0);
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{100}, std::size_t{1000}}) {
    void* data = pool.allocate(bytes);
    CHECK(pool.statistics().in_use == bytes);
    CHECK(pool.statistics().reserved == bytes);
    pool.release(data, bytes);
    CHECK(pool.statistics().in_use == 0);
    CHECK(pool.statistics().reserved == 0);
  }
  CHECK(pool.statistics().cache_hits == 0);
  CHECK_THROWS_AS(pool.allocate(1001), OutOfMemoryError);
  pool.set_limit(99);
  CHECK_THROWS_AS(pool.allocate(100), OutOfMemoryError);
}

TEST_CASE("threads may share a pool") {
  BoundedMemory raw(64 * kMiB);
  MemoryPool pool(cpu(), raw);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t)
    threads.emplace_back([&pool, t] {
      for (std::size_t i = 1; i < 500; ++i) {
        auto* data = static_cast<unsigned char*>(pool.allocate(i));
        data[0] = static_cast<unsigned char>(t);
        data[i - 1] = static_cast<unsigned char>(t);
        pool.release(data, i);
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK(pool.statistics().in_use == 0);
  CHECK(pool.statistics().allocations == 4 * 499);
}

}  // namespace
}  // namespace tutti

TEST_SUITE_END();
