// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/shared_memory/segments/shared_segment.h>

#include <tutti/backend/error.h>
#include <tutti/distributed/engines/shared_memory/segments/host_memory.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
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

// The first `there` bytes are allocated: they are mapped so that no touch waits for them.
std::byte* mapped(int descriptor, std::size_t bytes, std::size_t there, const std::string& whose) {
  constexpr int kAccess = PROT_READ | PROT_WRITE;
  void* const data = mmap(nullptr, bytes, kAccess, MAP_SHARED, descriptor, 0);
  if (data == MAP_FAILED) raise_failed("mmap", whose, bytes);
  if (mmap(data, there, kAccess, MAP_SHARED | MAP_FIXED | MAP_POPULATE, descriptor, 0) == MAP_FAILED) {
    munmap(data, bytes);
    raise_failed("mmap", whose, there);
  }
  return static_cast<std::byte*>(data);
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
  OwnedDescriptor descriptor(memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!descriptor) raise_failed("memfd_create", name, bytes);
  const std::size_t all = bytes + reserved;
  if (ftruncate(descriptor.get(), static_cast<off_t>(all)) != 0) raise_failed("ftruncate", name, all);
  if (fallocate(descriptor.get(), 0, 0, static_cast<off_t>(bytes)) != 0) raise_failed("fallocate", name, bytes);
  if (fcntl(descriptor.get(), F_ADD_SEALS, kSeals) != 0) raise_failed("F_ADD_SEALS", name, bytes);
  std::byte* const data = mapped(descriptor.get(), all, bytes, name);
  return std::shared_ptr<SharedSegment>(new SharedSegment(std::move(descriptor), data, all));
}

void SharedSegment::take(std::size_t offset, std::size_t bytes) const {
  require_memory(bytes, "shared memory");
  if (fallocate(descriptor_.get(), 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) != 0)
    raise<OutOfMemoryError>("[shared_memory] fallocate of {} bytes failed: {}", bytes, last_error());
}

void SharedSegment::give_back(std::size_t offset, std::size_t bytes) const noexcept {
  (void)fallocate(descriptor_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                  static_cast<off_t>(bytes));
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
  std::byte* const data = mapped(descriptor.get(), bytes, std::clamp<std::size_t>(there, 1, bytes), whose);
  return std::shared_ptr<SharedSegment>(new SharedSegment({}, data, bytes));
}

}  // namespace tutti
