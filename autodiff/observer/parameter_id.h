// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>

namespace tutti {

/// A parameter's dense number among those of an observer (`Attachment`).
struct ParameterId {
  std::uint32_t value = 0;

  friend auto operator<=>(const ParameterId&, const ParameterId&) = default;
};

}  // namespace tutti
