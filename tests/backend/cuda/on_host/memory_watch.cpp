// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/backend/cuda/on_host/memory_watch.h>

#include <tutti/tests/backend/cuda/on_host/grid.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

// Of the executable, by the linker. Shared memory is static, so it lies among what begins as zero.
extern "C" const std::byte __executable_start[];
extern "C" const std::byte __bss_start[];
extern "C" const std::byte _end[];

namespace tutti::on_host {
namespace {

struct Access {
  const std::byte* data;
  std::size_t bytes;
  bool writes;
};

/// The last accesses to four bytes.
struct Cell {
  struct Record {
    Moment when{};
    std::uint8_t bytes = 0;  // of the four, a bit each
  };
  Record write;
  Record reads[2];  // by two threads: a write by any thread is then one by another thread than one of them
  std::uint8_t written = 0;
};

class Region {
 public:
  Region(const char* name, const std::byte* begin, const std::byte* end, Lending lending, bool is_shared)
      : name_(name), begin_(begin), end_(end), lending_(lending), is_shared_(is_shared) {}

  bool holds(const Access& access) const { return access.data >= begin_ && access.data + access.bytes <= end_; }
  void check(const Access& access, const Moment& now);

 private:
  void check_cell(Cell& cell, std::uint8_t bytes, const Access& access, const Moment& now);
  void check_order(const Cell::Record& earlier, const char* did, std::uint8_t bytes, const Access& access) const;
  std::string place(const Access& access) const {
    return fmt::format("{} {} bytes at offset {} of {}", access.writes ? "writes" : "reads", access.bytes,
                       access.data - begin_, name_);
  }

  const char* name_;
  const std::byte* begin_;
  const std::byte* end_;
  Lending lending_;
  bool is_shared_;
  std::vector<Cell> cells_;
};

constexpr std::size_t kCell = 4;

void Region::check(const Access& access, const Moment& now) {
  if (access.writes && lending_ == Lending::reading) end_thread(place(access) + ", which is for reading");
  if (lending_ != Lending::writing) return;  // what nobody writes has no races
  const auto base = reinterpret_cast<std::uintptr_t>(begin_) / kCell;
  if (cells_.empty()) cells_.resize(reinterpret_cast<std::uintptr_t>(end_) / kCell + 1 - base);
  const auto first = reinterpret_cast<std::uintptr_t>(access.data);
  const std::uintptr_t last = first + access.bytes;
  for (std::uintptr_t at = first / kCell * kCell; at < last; at += kCell) {
    const std::uintptr_t begin = std::max(at, first) - at;
    const std::uintptr_t end = std::min(at + kCell, last) - at;
    check_cell(cells_[at / kCell - base], static_cast<std::uint8_t>((1U << end) - (1U << begin)), access, now);
  }
}

void Region::check_cell(Cell& cell, std::uint8_t bytes, const Access& access, const Moment& now) {
  if (is_shared_) {
    if (cell.write.when.block != now.block) cell = {};
    if (access.writes) cell.written |= bytes;
    if ((cell.written & bytes) != bytes) end_thread(place(access) + ", which the block has not written");
  }
  check_order(cell.write, "wrote", bytes, access);
  if (access.writes) {
    for (const Cell::Record& read : cell.reads) check_order(read, "read", bytes, access);
    cell.write = {now, bytes};
  } else {
    const bool first_again = cell.reads[0].when.thread == now.thread && cell.reads[0].when.block == now.block;
    if (!first_again) cell.reads[1] = cell.reads[0];
    cell.reads[0] = {now, bytes};
  }
}

void Region::check_order(const Cell::Record& earlier, const char* did, std::uint8_t bytes, const Access& access) const {
  if ((earlier.bytes & bytes) == 0 || is_ordered_before_now(earlier.when)) return;
  end_thread(fmt::format("{}, which thread {} of {} {} with no barrier between", place(access), earlier.when.thread,
                         earlier.when.block == running.now->block ? "the block" : "another block", did));
}

/// What kernels may touch, by its first byte.
class Memory {
 public:
  void lend(const char* name, const std::byte* data, std::size_t bytes, Lending lending) {
    lent_.insert_or_assign(data, Region(name, data, data + bytes, lending, false));
  }
  void take_back(const std::byte* data) { lent_.erase(data); }

  void see(const Access& access) {
    if (is_register(access)) return;
    if (shared_.holds(access)) return shared_.check(access, *running.now);
    auto next = lent_.upper_bound(access.data);
    if (next != lent_.begin() && std::prev(next)->second.holds(access))
      return std::prev(next)->second.check(access, *running.now);
    const bool is_constant = access.data >= __executable_start && access.data + access.bytes <= __bss_start;
    if (!is_constant || access.writes) report_outside(access);
  }

 private:
  static bool is_register(const Access& access) {
    const auto* const begin = reinterpret_cast<const std::byte*>(&registers);
    return access.data >= begin && access.data < begin + sizeof(registers);
  }
  [[noreturn]] void report_outside(const Access& access) const {
    end_thread(fmt::format("{} {} bytes at {}, outside of all arrays", access.writes ? "writes" : "reads", access.bytes,
                           fmt::ptr(access.data)));
  }

  std::map<const std::byte*, Region> lent_;
  Region shared_{"shared memory", __bss_start, _end, Lending::writing, true};
};

Memory& memory() {
  static Memory memory;
  return memory;
}

void see(const void* data, std::size_t bytes, bool writes) {
  const auto* const begin = static_cast<const std::byte*>(data);
  if (running.now == nullptr || (begin >= running.stack && begin < running.stack_end)) return;
  memory().see({begin, bytes, writes});
}

}  // namespace

LentMemory::LentMemory(const char* name, const void* data, std::size_t bytes, Lending lending) : data_(data) {
  memory().lend(name, static_cast<const std::byte*>(data), bytes, lending);
}

LentMemory::~LentMemory() { memory().take_back(static_cast<const std::byte*>(data_)); }

}  // namespace tutti::on_host

// What GCC and Clang call.
extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_read(void**) {}
void __tsan_vptr_update(void**, void*) {}

#define TUTTI_SEE(bytes)                                                                     \
  void __tsan_read##bytes(void* data) { tutti::on_host::see(data, bytes, false); }           \
  void __tsan_write##bytes(void* data) { tutti::on_host::see(data, bytes, true); }           \
  void __tsan_unaligned_read##bytes(void* data) { tutti::on_host::see(data, bytes, false); } \
  void __tsan_unaligned_write##bytes(void* data) { tutti::on_host::see(data, bytes, true); }
TUTTI_SEE(1)
TUTTI_SEE(2)
TUTTI_SEE(4)
TUTTI_SEE(8)
TUTTI_SEE(16)
#undef TUTTI_SEE

// Of what guards the beginning of static variables.
unsigned char __tsan_atomic8_load(const volatile unsigned char* data, int) {
  return __atomic_load_n(data, __ATOMIC_ACQUIRE);
}

void __tsan_read_range(void* data, std::size_t bytes) { tutti::on_host::see(data, bytes, false); }
void __tsan_write_range(void* data, std::size_t bytes) { tutti::on_host::see(data, bytes, true); }
void* __tsan_memset(void* data, int value, std::size_t bytes) {
  tutti::on_host::see(data, bytes, true);
  return std::memset(data, value, bytes);
}
void* __tsan_memcpy(void* to, const void* from, std::size_t bytes) {
  tutti::on_host::see(from, bytes, false);
  tutti::on_host::see(to, bytes, true);
  return std::memcpy(to, from, bytes);
}
void* __tsan_memmove(void* to, const void* from, std::size_t bytes) {
  tutti::on_host::see(from, bytes, false);
  tutti::on_host::see(to, bytes, true);
  return std::memmove(to, from, bytes);
}

}  // extern "C"
