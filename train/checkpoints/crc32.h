// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace tutti {

/// CRC-32, as gzip's, of a growing sequence of bytes.
class Crc32 {
 public:
  void add(const void* data, std::size_t bytes);
  std::string text() const;  ///< eight hexadecimal digits

 private:
  unsigned long value_ = 0;
};

}  // namespace tutti
