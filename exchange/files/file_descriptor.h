// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace tutti {

/// An open file, closed with its owner. Every function throws DataError naming the path and the system's reason, and
/// where reading or writing failed the offset.
class FileDescriptor {
 public:
  static FileDescriptor open_for_reading(const std::string& path);  ///< regular files only
  /// Refuses an existing file. Errors name `known_as`, if given, in place of the path.
  static FileDescriptor create_new(const std::string& path, const std::string& known_as = {});
  ~FileDescriptor();
  FileDescriptor(FileDescriptor&&) noexcept;
  FileDescriptor& operator=(FileDescriptor&&) = delete;

  std::uint64_t size() const;
  std::uint64_t offset() const noexcept { return offset_; }  ///< place of the next read or write

  void read(void* to, std::size_t bytes);  ///< reads exactly so many, or throws DataError with the offset
  /// Reads exactly so many bytes at `offset`, or throws DataError with the offset; leaves offset() as it is.
  void read_at(std::uint64_t offset, void* to, std::size_t bytes);
  /// The file's first bytes (at least one) in memory. Writes stay there; the descriptor may be closed before.
  std::shared_ptr<std::byte> map_privately(std::size_t bytes) const;
  void write(const void* from, std::size_t bytes);
  void write_at(std::uint64_t offset, const void* from, std::size_t bytes);  ///< leaves offset() as it is
  void flush_to_disk();
  void close();

 private:
  FileDescriptor(const std::string& path, std::string known_as, int flags);
  [[noreturn]] void fail(const char* what) const;
  [[noreturn]] void fail(const char* what, std::uint64_t offset) const;

  std::string path_;  // name of the file in errors
  int descriptor_;
  std::uint64_t offset_ = 0;
};

/// Forces the directory that a file or folder is in to the disk: a new or changed name is there only with it.
void flush_name_to_disk(const std::string& path);

/// Holds the file .lock of a folder, so that one writes to it at a time. A process that ends, in whatever way, lets go.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder);  ///< throws DataError if another holds it, of this process or not
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;
};

/// A new version of a file. It takes the old one's place at `commit`, in one step; without commit it disappears.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  FileDescriptor& file() noexcept { return file_; }
  const std::string& place_until_commit() const noexcept { return temporary_; }
  void commit();  ///< forces it to the disk: contents first, then the name

 private:
  std::string path_;
  std::string temporary_;
  FileDescriptor file_;
  bool committed_ = false;
};

}  // namespace tutti
