// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <string>

namespace tutti::testing {

/// Lines that several threads add, for tests of what the library says.
class HeardLines {
 public:
  void add(const std::string& line) {
    const std::lock_guard lock(mutex_);
    text_ += line + '\n';
  }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

}  // namespace tutti::testing
