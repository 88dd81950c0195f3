// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include <doctest/doctest.h>

namespace tutti::testing {

/// A folder of its own for a test case, in which launchers make theirs meanwhile, by TMPDIR.
class LaunchFolder {
 public:
  LaunchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "tutti-test-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
    setenv("TMPDIR", path_.c_str(), 1);
  }
  ~LaunchFolder() {
    unsetenv("TMPDIR");
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  LaunchFolder(const LaunchFolder&) = delete;
  LaunchFolder& operator=(const LaunchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  bool empty() const { return std::filesystem::is_empty(path_); }

 private:
  std::filesystem::path path_;
};

}  // namespace tutti::testing
