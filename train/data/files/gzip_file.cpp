// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/data/gzip_file.h>

#include <tutti/backend/raise.h>

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace tutti {

std::uint64_t most_unpacked_bytes(const std::string& path) {
  constexpr std::uint64_t kAlways = std::uint64_t{1} << 30U;
  std::error_code unknown;  // of a pipe or a device
  const std::uintmax_t bytes = std::filesystem::file_size(path, unknown);
  return unknown ? kAlways : std::max<std::uint64_t>(kAlways, 100 * std::min<std::uint64_t>(bytes, kAlways << 20U));
}

GzipFile::GzipFile(std::string path, std::uint64_t most)
    : path_(std::move(path)), most_(most > 0 ? most : most_unpacked_bytes(path_)) {
  if (std::error_code ignored; std::filesystem::is_directory(path_, ignored))
    raise<DataError>("[read] {} is a folder, not a file", path_);
  errno = 0;
  handle_ = gzopen(path_.c_str(), "rb");
  if (!handle_) raise<DataError>("[read] cannot open {}: {}", path_, std::strerror(errno));
}

GzipFile::~GzipFile() {
  if (handle_) gzclose(handle_);
}

std::size_t GzipFile::read(void* to, std::size_t bytes) {
  std::size_t done = 0;
  while (done < bytes && handle_) {
    const auto wanted = static_cast<unsigned>(std::min<std::size_t>(bytes - done, 1U << 30U));
    errno = 0;
    const int count = gzread(handle_, static_cast<char*>(to) + done, wanted);
    if (count < 0) {
      const int system_error = errno;
      int code = Z_OK;
      std::string_view reason = gzerror(handle_, &code);
      if (reason.starts_with(path_ + ": ")) reason.remove_prefix(path_.size() + 2);
      if (code == Z_ERRNO) reason = std::strerror(system_error);
      raise<DataError>("[read] {} is damaged after offset {}: {}", path_, offset_, reason);
    }
    done += static_cast<std::size_t>(count);
    offset_ += static_cast<std::uint64_t>(count);
    if (offset_ > most_)
      raise<DataError>("[read] {} holds more than {} bytes{}: if it is to be read, raise most_unpacked_bytes", path_,
                       most_, gzdirect(handle_) == 0 ? ", unpacked" : "");
    if (count == 0) finish();
  }
  return done;
}

void GzipFile::finish() {
  // zlib tells of a stream that ends too early only when it is closed.
  const int status = gzclose(handle_);
  handle_ = nullptr;
  if (status != Z_OK) raise<DataError>("[read] {} is truncated after offset {}", path_, offset_);
}

std::string read_text(const std::string& path, const TextOptions& options) {
  constexpr std::size_t kBlock = 1U << 16U;
  GzipFile file(path, options.most_unpacked_bytes);
  std::string contents;
  for (std::size_t count = kBlock; count == kBlock;) {
    const std::size_t before = contents.size();
    contents.resize(before + kBlock);
    count = file.read(contents.data() + before, kBlock);
    contents.resize(before + count);
  }
  return contents;
}

}  // namespace tutti
