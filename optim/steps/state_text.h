// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

/// The few numbers that a schedule or a scaler has for state, as text that gives back every bit.
struct StateNumbers {
  std::vector<double> numbers;
  std::vector<std::int64_t> counts;
};
std::string state_text(const std::vector<double>& numbers, const std::vector<std::int64_t>& counts);
/// Throws Error naming `whose` unless the text holds just so many.
StateNumbers parse_state_text(std::string_view whose, const std::string& text, std::size_t numbers, std::size_t counts);

}  // namespace tutti
