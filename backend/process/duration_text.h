// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

namespace tutti {

/// "05:12" or "1:05:12"; "--:--" for what is no duration below 100 hours.
inline std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0.0 || seconds > 359'999.0) return "--:--";
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  const auto two_digits = [](std::int64_t number) { return (number < 10 ? "0" : "") + std::to_string(number); };
  const std::string minutes = two_digits(whole / 60 % 60) + ":" + two_digits(whole % 60);
  return whole >= 3600 ? std::to_string(whole / 3600) + ":" + minutes : minutes;
}

}  // namespace tutti
