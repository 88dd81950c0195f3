// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/process/owned_descriptor.h>
#include <tutti/backend/process/process_mark.h>

#include <cstddef>
#include <memory>
#include <string>

namespace tutti {

/// Memory that processes of one host share: a memfd of fixed size, mapped here. It has no name in any file system and
/// is gone with the last process that maps it. Behind what is there from the beginning it may have addresses whose
/// memory is taken when it is needed.
class SharedSegment {
 public:
  /// New memory of zeros, all of it allocated and mapped, so that no later touch can fail, and `reserved` bytes of
  /// addresses behind it, or half as many, and so on, where the process cannot have them. `name`: shown by /proc.
  /// Throws OutOfMemoryError naming the limit if there is not that much memory (require_memory), Error naming the call
  /// that failed.
  static std::shared_ptr<SharedSegment> make(const std::string& name, std::size_t bytes, std::size_t reserved = 0);

  /// Maps what another process made. `whose` names it in errors. Throws Error, before anything is mapped, unless the
  /// descriptor is a memfd of that size which nobody can shrink or grow any more; OutOfMemoryError if this process has
  /// no addresses for it.
  static std::shared_ptr<SharedSegment> map(OwnedDescriptor, std::size_t bytes, const std::string& whose);

  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  void require_own() const;  ///< throws SyncError in a child of the process that has made or mapped it
  /// Allocates memory of zeros at reserved addresses, before anybody touches them, in the process that made the
  /// segment. Throws OutOfMemoryError naming the limit, SyncError in a child of that process.
  void take(std::size_t offset, std::size_t bytes) const;
  /// Puts whole huge pages of taken memory on such ones, in all processes that map them as this one does: fewer faults,
  /// and fewer misses of the processor's table of pages. It copies them. Where the kernel has none, nothing changes.
  void use_huge_pages(std::size_t offset, std::size_t bytes) const noexcept;
  /// Gives it back: it is zeros again, and takes no memory but for shared pages at its ends. In a child: nothing, for
  /// the memory is the parent's.
  void give_back(std::size_t offset, std::size_t bytes) const noexcept;

  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }          ///< number, with the reserved ones
  int descriptor() const noexcept { return descriptor_.get(); }  ///< given to the others; -1 where it was mapped

 private:
  SharedSegment(OwnedDescriptor, std::byte* data, std::size_t bytes) noexcept;

  OwnedDescriptor descriptor_;
  std::byte* data_;
  std::size_t bytes_;
  ProcessMark made_;
};

}  // namespace tutti
