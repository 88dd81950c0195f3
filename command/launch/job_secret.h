// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace tutti::launch {

/// `bytes` random bytes of the kernel's, in hexadecimal digits.
std::string random_hex(std::size_t bytes);

/// A new secret of 32 random bytes, as 64 hexadecimal digits in a file that only this user can read, in a folder of its
/// own below TMPDIR or /tmp. Both are removed with this object, unless the process is killed by SIGKILL.
class JobSecret {
 public:
  JobSecret();  ///< throws LaunchError naming the path
  ~JobSecret();
  JobSecret(const JobSecret&) = delete;
  JobSecret& operator=(const JobSecret&) = delete;

  const std::filesystem::path& file() const noexcept { return file_; }

 private:
  std::filesystem::path folder_;
  std::filesystem::path file_;
};

/// The absolute path of a secret that the user made. Throws LaunchError naming it unless it is a regular file of this
/// user, not empty, which nobody else can read or write.
std::filesystem::path checked_secret_file(const std::string& path);

}  // namespace tutti::launch
