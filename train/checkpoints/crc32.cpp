// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/checkpoints/crc32.h>

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>

namespace tutti {

void Crc32::add(const void* data, std::size_t bytes) {
  constexpr std::size_t kMost = 1U << 30U;  // zlib counts in 32 bits
  const auto* from = static_cast<const Bytef*>(data);
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t now = std::min(bytes - done, kMost);
    value_ = crc32(value_, from + done, static_cast<uInt>(now));
    done += now;
  }
}

std::string Crc32::text() const { return fmt::format("{:08x}", value_); }

}  // namespace tutti
