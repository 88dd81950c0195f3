// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>

#include <cstdint>
#include <mutex>
#include <vector>

namespace tutti {

/// The last few numbers that one device's operands were multiplied by, compared with, ...: each is written once, in the
/// order of the compute stream, and found again after that. Thread-safe.
class LiteralArrays {
 public:
  explicit LiteralArrays(Device device) : device_(device) {}
  LiteralArrays(const LiteralArrays&) = delete;
  LiteralArrays& operator=(const LiteralArrays&) = delete;

  Array find(Scalar, DType);

 private:
  static constexpr std::size_t kMost = 64;
  struct Known {
    DType dtype;
    std::uint64_t bits;
    Array array;
  };

  Device device_;
  std::mutex mutex_;
  std::vector<Known> known_;  // the last one used first
};

}  // namespace tutti
