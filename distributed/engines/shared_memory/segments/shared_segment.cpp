// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/shared_memory/segments/shared_segment.h>

#include <tutti/backend/raise.h>
#include <tutti/distributed/engines/shared_memory/segments/host_memory.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>
#include <system_error>
#include <utility>

namespace tutti {

namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

std::string last_error() { return std::generic_category().message(errno); }

[[noreturn]] void raise_failed(const char* call, const std::string& whose, std::size_t bytes) {
  raise("[shared_memory] {} of {} bytes for {} failed: {}", call, bytes, whose, last_error());
}

constexpr std::size_t kHugePage = std::size_t{2} << 20U;
constexpr int kCollapse = 25;  // MADV_COLLAPSE, which glibc 2.36 does not name

std::size_t rounded_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Addresses for so many bytes, from that of a huge page on; nothing is there yet. Null: there are not as many.
std::byte* reserved_addresses(std::size_t bytes, std::size_t page) {
  const std::size_t wanted = rounded_up(bytes, page);
  void* const all = mmap(nullptr, wanted + kHugePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(all);
  const std::size_t before =
      rounded_up(reinterpret_cast<std::uintptr_t>(begin), kHugePage) - reinterpret_cast<std::uintptr_t>(begin);
  if (before > 0) munmap(begin, before);
  if (before < kHugePage) munmap(begin + before + wanted, kHugePage - before);
  munlock(begin + before, wanted);  // mlockall counts it, and would count what is mapped over it as well
  return begin + before;
}

// The first `there` bytes are allocated: they are mapped so that no touch waits for them. The others may have no
// memory, and are to get none when a process locks all that it maps, or its core is dumped. Null, with errno: there are
// no such many addresses.
std::byte* mapped(int descriptor, std::size_t bytes, std::size_t there) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::byte* const addresses = reserved_addresses(bytes, page);
  if (addresses == nullptr) return nullptr;
  void* const data = mmap(addresses, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, descriptor, 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    munmap(addresses, bytes);
    errno = error;
    return nullptr;
  }
  const std::size_t first = std::min(bytes, rounded_up(there, page));
  auto* const begin = static_cast<std::byte*>(data);
  const bool is_mapped =
      mmap(data, first, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE, descriptor, 0) != MAP_FAILED &&
      (first == bytes || (mprotect(begin + first, bytes - first, PROT_READ | PROT_WRITE) == 0 &&
                          madvise(begin + first, bytes - first, MADV_DONTDUMP) == 0));
  if (is_mapped) return begin;
  const int error = errno;
  munmap(data, bytes);
  errno = error;
  return nullptr;
}

// In pieces, each of which a signal may interrupt (tmpfs of older kernels), and is then begun anew.
bool is_allocated(int descriptor, std::size_t offset, std::size_t bytes) {
  constexpr std::size_t kPiece = std::size_t{4} << 20U;
  for (const std::size_t end = offset + bytes; offset < end;) {
    const std::size_t length = std::min(kPiece, end - offset);
    if (fallocate(descriptor, 0, static_cast<off_t>(offset), static_cast<off_t>(length)) == 0)
      offset += length;
    else if (errno != EINTR)
      return false;
  }
  return true;
}

}  // namespace

SharedSegment::SharedSegment(OwnedDescriptor descriptor, std::byte* data, std::size_t bytes) noexcept
    : descriptor_(std::move(descriptor)), data_(data), bytes_(bytes) {}

SharedSegment::~SharedSegment() { munmap(data_, bytes_); }

std::shared_ptr<SharedSegment> SharedSegment::make(const std::string& name, std::size_t bytes, std::size_t reserved) {
  constexpr auto kMost = static_cast<std::size_t>(std::numeric_limits<off_t>::max());
  if (bytes == 0 || bytes > kMost || reserved > kMost - bytes)
    raise("[shared_memory] {} cannot have {} bytes and {} more", name, bytes, reserved);
  require_memory(bytes, name);
  // Beyond it, ftruncate ends the process by a signal.
  rlimit files{};
  if (getrlimit(RLIMIT_FSIZE, &files) == 0 && files.rlim_cur != RLIM_INFINITY) {
    if (files.rlim_cur < bytes)
      raise("[shared_memory] {} has {} bytes, and files here {} at most (ulimit -f)", name, bytes, files.rlim_cur);
    reserved = std::min<std::size_t>(reserved, files.rlim_cur - bytes);
  }
  OwnedDescriptor descriptor(memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!descriptor) raise_failed("memfd_create", name, bytes);
  for (;; reserved /= 2) {
    const std::size_t all = bytes + reserved;
    const bool has_size = ftruncate(descriptor.get(), static_cast<off_t>(all)) == 0;
    if (!has_size && reserved == 0) raise_failed("ftruncate", name, all);
    if (!has_size) continue;
    if (!is_allocated(descriptor.get(), 0, bytes)) raise_failed("fallocate", name, bytes);
    std::byte* const data = mapped(descriptor.get(), all, bytes);
    if (data == nullptr && reserved == 0) raise_failed("mmap", name, all);
    if (data == nullptr) continue;
    const int sealed = fcntl(descriptor.get(), F_ADD_SEALS, kSeals);
    std::shared_ptr<SharedSegment> segment(new SharedSegment(std::move(descriptor), data, all));
    if (sealed != 0) raise_failed("F_ADD_SEALS", name, all);
    return segment;
  }
}

void SharedSegment::require_own() const {
  if (!made_.here()) raise<SyncError>("[shared_memory] memory of a process that {}", made_.elsewhere_text());
}

void SharedSegment::take(std::size_t offset, std::size_t bytes) const {
  require_own();
  require_memory(bytes, "shared memory");
  if (!is_allocated(descriptor_.get(), offset, bytes))
    raise<OutOfMemoryError>("[shared_memory] fallocate of {} bytes failed: {}", bytes, last_error());
}

void SharedSegment::use_huge_pages(std::size_t offset, std::size_t bytes) const noexcept {
  const auto first = reinterpret_cast<std::uintptr_t>(data_ + offset);
  const auto begin = rounded_up(first, kHugePage);
  const auto end = (first + bytes) / kHugePage * kHugePage;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, kCollapse);
}

void SharedSegment::give_back(std::size_t offset, std::size_t bytes) const noexcept {
  if (!made_.here()) return;
  const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  int result = 0;
  do result = fallocate(descriptor_.get(), mode, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  while (result != 0 && errno == EINTR);
  if (result != 0) std::memset(data_ + offset, 0, bytes);  // it stays allocated
}

std::shared_ptr<SharedSegment> SharedSegment::map(OwnedDescriptor descriptor, std::size_t bytes,
                                                  const std::string& whose) {
  const int seals = fcntl(descriptor.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals)
    raise("[shared_memory] the memory of {} is not sealed against changes of its size", whose);
  struct stat status {};
  if (fstat(descriptor.get(), &status) != 0) raise_failed("fstat", whose, bytes);
  if (bytes == 0 || status.st_size < 0 || static_cast<std::size_t>(status.st_size) != bytes)
    raise("[shared_memory] the memory of {} has {} bytes, not {}", whose, static_cast<long long>(status.st_size),
          bytes);
  const std::size_t there = static_cast<std::size_t>(status.st_blocks) * 512;
  std::byte* const data = mapped(descriptor.get(), bytes, std::clamp<std::size_t>(there, 1, bytes));
  if (data == nullptr)
    raise<OutOfMemoryError>("[shared_memory] mmap of {} bytes for {} failed: {}", bytes, whose, last_error());
  return std::shared_ptr<SharedSegment>(new SharedSegment({}, data, bytes));
}

}  // namespace tutti
