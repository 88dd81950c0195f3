// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace tutti::testing {

/// A folder of its own for each test case, removed with it.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::filesystem::path& parent = std::filesystem::temp_directory_path()) {
    std::string name = (parent / "test-folder-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("cannot make a temporary folder");
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string file(const std::string& name) const { return (path_ / name).string(); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Where forcing a file to the disk takes no time, if there is such a place: for tests that write thousands.
inline std::filesystem::path folder_in_memory() {
  const std::filesystem::path memory = "/dev/shm";
  return std::filesystem::is_directory(memory) ? memory : std::filesystem::temp_directory_path();
}

inline std::string read_file(const std::string& path) {
  std::ifstream from(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(from), {}};
}

inline void write_file(const std::string& path, const std::string& contents) {
  std::ofstream to(path, std::ios::binary | std::ios::trunc);
  to.write(contents.data(), static_cast<std::streamsize>(contents.size()));
}

/// In place: some file systems force a file that is written anew to the disk.
inline void put_byte(const std::string& path, std::size_t position, char byte) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(position));
  file.put(byte);
}

inline void write_gzip(const std::string& path, const std::string& contents) {
  gzFile to = gzopen(path.c_str(), "wb");
  gzwrite(to, contents.data(), static_cast<unsigned>(contents.size()));
  gzclose(to);
}

}  // namespace tutti::testing
