// SPDX-License-Identifier: Apache-2.0
#include <tutti/exchange/files/file_descriptor.h>

#include <tutti/backend/raise.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace tutti {
namespace {

constexpr mode_t kNewFileMode = 0666;  // less the umask

/// Beside `path`, since a rename cannot cross file systems; of one writer only, since several may save at once.
// A killed process of the same number may have left some.
std::string temporary_path(const std::string& path) {
  static std::atomic<unsigned> counter{0};
  for (;;)
    if (std::string name = fmt::format("{}.{}.{}.tmp", path, getpid(), counter.fetch_add(1));
        access(name.c_str(), F_OK) != 0)
      return name;
}

}  // namespace

// Not all file systems can do it; the rename itself has happened.
void flush_name_to_disk(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  const int directory = open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return;
  fsync(directory);
  close(directory);
}

FileDescriptor::FileDescriptor(const std::string& path, std::string known_as, int flags)
    : path_(std::move(known_as)), descriptor_(open(path.c_str(), flags | O_CLOEXEC, kNewFileMode)) {
  if (descriptor_ < 0) fail((flags & O_CREAT) != 0 ? "cannot create" : "cannot open");
}

FileDescriptor FileDescriptor::open_for_reading(const std::string& path) {
  // Without O_NONBLOCK, opening a pipe that nobody writes to would hang.
  FileDescriptor file(path, path, O_RDONLY | O_NONBLOCK);
  struct stat status {};
  if (fstat(file.descriptor_, &status) != 0) file.fail("cannot inspect");
  if (!S_ISREG(status.st_mode)) raise<DataError>("[file] {} is not a regular file", path);
  return file;
}

FileDescriptor FileDescriptor::create_new(const std::string& path, const std::string& known_as) {
  return FileDescriptor(path, known_as.empty() ? path : known_as, O_WRONLY | O_CREAT | O_EXCL);
}

FileDescriptor::~FileDescriptor() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

FileDescriptor::FileDescriptor(FileDescriptor&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)), offset_(other.offset_) {}

void FileDescriptor::fail(const char* what) const {
  const int error = errno;
  raise<DataError>("[file] {} {}: {}", what, path_, std::strerror(error));
}

void FileDescriptor::fail(const char* what, std::uint64_t offset) const {
  const int error = errno;
  raise<DataError>("[file] {} {} at offset {}: {}", what, path_, offset, std::strerror(error));
}

std::uint64_t FileDescriptor::size() const {
  struct stat status {};
  if (fstat(descriptor_, &status) != 0) fail("cannot inspect");
  return static_cast<std::uint64_t>(status.st_size);
}

void FileDescriptor::read(void* to, std::size_t bytes) {
  read_at(offset_, to, bytes);
  offset_ += bytes;
}

void FileDescriptor::read_at(std::uint64_t offset, void* to, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t count =
        pread(descriptor_, static_cast<char*>(to) + done, bytes - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("cannot read", offset + done);
    if (count == 0) raise<DataError>("[file] {} ends at offset {}", path_, offset + done);
    done += static_cast<std::size_t>(count);
  }
}

std::shared_ptr<std::byte> FileDescriptor::map_privately(std::size_t bytes) const {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, descriptor_, 0);
  if (data == MAP_FAILED) fail("cannot map");
  return {static_cast<std::byte*>(data), [bytes](std::byte* mapped) { munmap(mapped, bytes); }};
}

void FileDescriptor::write(const void* from, std::size_t bytes) {
  write_at(offset_, from, bytes);
  offset_ += bytes;
}

void FileDescriptor::write_at(std::uint64_t offset, const void* from, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t count =
        pwrite(descriptor_, static_cast<const char*>(from) + done, bytes - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail("cannot write", offset + done);
    done += static_cast<std::size_t>(count);
  }
}

void FileDescriptor::flush_to_disk() {
  if (fsync(descriptor_) != 0) fail("cannot flush");
}

void FileDescriptor::close() {
  if (::close(std::exchange(descriptor_, -1)) != 0) fail("cannot close");
}

// File systems that have no such locks go without.
FolderLock::FolderLock(const std::string& folder)
    : descriptor_(open((folder + "/.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kNewFileMode)) {
  if (descriptor_ < 0) raise<DataError>("[file] cannot open {}/.lock: {}", folder, std::strerror(errno));
  if (flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(descriptor_);
  raise<DataError>("[file] {} is being written to by another, who holds its .lock", folder);
}

FolderLock::~FolderLock() { ::close(descriptor_); }

AtomicFile::AtomicFile(std::string path)
    : path_(std::move(path)), temporary_(temporary_path(path_)), file_(FileDescriptor::create_new(temporary_, path_)) {}

AtomicFile::~AtomicFile() {
  if (!committed_) unlink(temporary_.c_str());
}

void AtomicFile::commit() {
  file_.flush_to_disk();
  file_.close();
  if (rename(temporary_.c_str(), path_.c_str()) != 0)
    raise<DataError>("[file] cannot replace {}: {}", path_, std::strerror(errno));
  committed_ = true;
  flush_name_to_disk(path_);
}

}  // namespace tutti
