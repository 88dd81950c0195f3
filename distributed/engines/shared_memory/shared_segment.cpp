// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/shared_memory/shared_segment.h>

#include <tutti/backend/error.h>
#include <tutti/distributed/engines/shared_memory/host_memory.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

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

std::byte* mapped(int descriptor, std::size_t bytes, const std::string& whose) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor, 0);
  if (data == MAP_FAILED) raise_failed("mmap", whose, bytes);
  return static_cast<std::byte*>(data);
}

}  // namespace

SharedSegment::SharedSegment(OwnedDescriptor descriptor, std::byte* data, std::size_t bytes) noexcept
    : descriptor_(std::move(descriptor)), data_(data), bytes_(bytes) {}

SharedSegment::~SharedSegment() { munmap(data_, bytes_); }

std::shared_ptr<SharedSegment> SharedSegment::make(const std::string& name, std::size_t bytes) {
  if (bytes == 0 || bytes > static_cast<std::size_t>(std::numeric_limits<off_t>::max()))
    raise("[shared_memory] {} cannot have {} bytes", name, bytes);
  require_memory(bytes, name);
  OwnedDescriptor descriptor(memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!descriptor) raise_failed("memfd_create", name, bytes);
  const auto size = static_cast<off_t>(bytes);
  if (ftruncate(descriptor.get(), size) != 0) raise_failed("ftruncate", name, bytes);
  if (fallocate(descriptor.get(), 0, 0, size) != 0) raise_failed("fallocate", name, bytes);
  if (fcntl(descriptor.get(), F_ADD_SEALS, kSeals) != 0) raise_failed("F_ADD_SEALS", name, bytes);
  std::byte* const data = mapped(descriptor.get(), bytes, name);
  return std::shared_ptr<SharedSegment>(new SharedSegment(std::move(descriptor), data, bytes));
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
  std::byte* const data = mapped(descriptor.get(), bytes, whose);
  return std::shared_ptr<SharedSegment>(new SharedSegment({}, data, bytes));
}

}  // namespace tutti
