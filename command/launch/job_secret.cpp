// SPDX-License-Identifier: Apache-2.0
#include <tutti/command/launch/job_secret.h>

#include <tutti/command/launch/file_descriptor.h>
#include <tutti/command/launch/launch_error.h>

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <system_error>
#include <vector>

namespace tutti::launch {

namespace {

constexpr std::size_t kSecretBytes = 32;

std::filesystem::path temporary_folder() {
  const char* folder = std::getenv("TMPDIR");
  return std::filesystem::absolute(folder != nullptr && *folder != '\0' ? folder : "/tmp");
}

void write_all(const std::filesystem::path& path, const std::string& text) {
  const FileDescriptor file(
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file) raise_errno("make " + path.string());
  if (write(file.number(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    raise_errno("write " + path.string());
}

}  // namespace

std::string random_hex(std::size_t bytes) {
  std::vector<unsigned char> random(bytes);
  // Up to 256 bytes come at once, or none.
  if (getrandom(random.data(), bytes, 0) != static_cast<ssize_t>(bytes)) raise_errno("get random bytes");
  std::string text;
  for (const unsigned char byte : random) text += fmt::format("{:02x}", byte);
  return text;
}

JobSecret::JobSecret() {
  std::string folder = temporary_folder() / "tutti-launch-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) raise_errno("make a folder " + folder);
  folder_ = folder;
  file_ = folder_ / "secret";
  try {
    write_all(file_, random_hex(kSecretBytes));
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
    throw;
  }
}

JobSecret::~JobSecret() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::filesystem::path checked_secret_file(const std::string& path) {
  // Neither waits at a pipe nor becomes the owner of a terminal.
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat status {};
  if (!file || fstat(file.number(), &status) != 0)
    refuse("--secret-file {}: {}", path, std::generic_category().message(errno));
  if (!S_ISREG(status.st_mode)) refuse("--secret-file {} is no regular file", path);
  if (status.st_uid != geteuid())
    refuse("--secret-file {} belongs to user {}, and this is user {}", path, status.st_uid, geteuid());
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    refuse("--secret-file {} has the mode {:o}: others may use it; chmod 600 it", path, status.st_mode & 07777);
  if (status.st_size == 0) refuse("--secret-file {} is empty", path);
  return std::filesystem::absolute(path);
}

}  // namespace tutti::launch
