// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/memory/memory_pool.h>

#include <tutti/backend/process/environment.h>
#include <tutti/backend/raise.h>

#include <bit>

namespace tutti {
namespace {

constexpr std::size_t kSmall = std::size_t{1} << 10U;
constexpr std::size_t kLarge = std::size_t{1} << 16U;
constexpr std::size_t kMost = std::size_t{1} << 60U;  // more is never there, and is where rounding might overflow

struct SizeClass {
  std::size_t index;
  std::size_t block;  // bytes
};

constexpr SizeClass size_class(std::size_t bytes) {
  if (bytes <= kSmall) {
    const std::size_t units = (bytes + 63) / 64;
    return {units - 1, units * 64};
  }
  // Within (2^e, 2^(e+1)], in steps of 2^(e - bits): at most 3 % of a large block is wasted, and 20 % of a small one.
  const unsigned exponent = std::bit_width(bytes - 1) - 1U;
  const unsigned bits = bytes > kLarge ? 5U : 2U;
  const std::size_t step = std::size_t{1} << (exponent - bits);
  const std::size_t steps = (bytes - (std::size_t{1} << exponent) + step - 1) / step;  // 1 ... 2^bits
  const std::size_t first = exponent < 16 ? 16 + (exponent - 10) * 4 : 40 + (exponent - 16) * 32;
  return {first + steps - 1, (std::size_t{1} << exponent) + steps * step};
}

std::size_t block_of(std::size_t index) {
  if (index < 16) return (index + 1) * 64;
  const bool large = index >= 40;
  const std::size_t place = large ? index - 40 : index - 16;
  const unsigned bits = large ? 5U : 2U;
  const std::size_t power = std::size_t{1} << ((large ? 16 : 10) + (place >> bits));
  return power + ((place & ((1U << bits) - 1)) + 1) * (power >> bits);
}

std::string readable(std::size_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit < 6; ++unit) value /= 1024;
  return fmt::format("{:.{}f} {}", value, unit == 0 ? 0 : 2, kUnits[unit]);
}

}  // namespace

MemoryPool::MemoryPool(Device device, RawMemory& raw, Keeps keeps) : device_(device), raw_(raw), keeps_(keeps) {}

MemoryPool::~MemoryPool() { trim(); }

void* MemoryPool::allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  const std::lock_guard lock(mutex_);
  if (bytes > kMost) raise_out_of_memory(bytes);
  const std::size_t block = block_for(bytes);
  if (block > limit_ || statistics_.in_use > limit_ - block) raise_out_of_memory(bytes);
  void* data = take(size_class(bytes).index, block);
  if (data == nullptr) raise_out_of_memory(bytes);
  ++statistics_.allocations;
  statistics_.in_use += block;
  if (statistics_.in_use > statistics_.peak_in_use) statistics_.peak_in_use = statistics_.in_use;
  return data;
}

std::size_t MemoryPool::block_for(std::size_t bytes) const {
  return keeps_ == Keeps::nothing ? bytes : size_class(bytes).block;
}

void* MemoryPool::take(std::size_t size_class, std::size_t block) {
  auto& free = free_[size_class];
  if (!free.empty()) {
    void* data = free.back();
    free.pop_back();
    ++statistics_.cache_hits;
    return data;
  }
  void* data = raw_.allocate(block);
  if (data == nullptr) {
    trim_locked();
    data = raw_.allocate(block);
  }
  if (data != nullptr) statistics_.reserved += block;
  return data;
}

void MemoryPool::release(void* data, std::size_t bytes) noexcept {
  if (data == nullptr) return;
  const std::size_t block = block_for(bytes);
  if (keeps_ == Keeps::nothing) {
    raw_.release(data, block);  // which may wait for a device: not with the mutex
    const std::lock_guard lock(mutex_);
    statistics_.in_use -= block;
    statistics_.reserved -= block;
    return;
  }
  const std::lock_guard lock(mutex_);
  statistics_.in_use -= block;
  try {
    free_[size_class(bytes).index].push_back(data);
  } catch (...) {  // no memory to remember it
    raw_.release(data, block);
    statistics_.reserved -= block;
  }
}

void MemoryPool::raise_out_of_memory(std::size_t bytes) const {
  const std::string limit =
      limit_ == std::numeric_limits<std::size_t>::max() ? "no limit set" : "the limit is " + readable(limit_);
  const std::string_view operation = detail::operation_called("");
  const std::string needed = operation.empty() ? "" : fmt::format(", which {} needs", operation);
  raise<OutOfMemoryError>("[memory] {}: no room for {} ({} bytes){}: {} in use, {} reserved, {}", to_string(device_),
                          readable(bytes), bytes, needed, readable(statistics_.in_use), readable(statistics_.reserved),
                          limit);
}

void MemoryPool::set_limit(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  limit_ = bytes;
}

void MemoryPool::trim() noexcept {
  const std::lock_guard lock(mutex_);
  trim_locked();
}

void MemoryPool::trim_locked() noexcept {
  for (std::size_t index = 0; index < kClasses; ++index) {
    for (void* data : free_[index]) {
      raw_.release(data, block_of(index));
      statistics_.reserved -= block_of(index);
    }
    free_[index].clear();
  }
}

MemoryStatistics MemoryPool::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

void MemoryPool::reset_peak() {
  const std::lock_guard lock(mutex_);
  statistics_.peak_in_use = statistics_.in_use;
}

MemoryPool::Keeps kept_by_pools() {
  const auto text = environment_text("TUTTI_POOL");
  if (text && *text != "on" && *text != "off")
    raise<Error>("[environment] TUTTI_POOL is \"{}\": it must be on or off", *text);
  return text == "off" ? MemoryPool::Keeps::nothing : MemoryPool::Keeps::freed_blocks;
}

}  // namespace tutti
