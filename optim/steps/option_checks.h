// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace tutti {

// All throw Error naming the optimizer and the option; NaN is in no range.
void check_share(std::string_view optimizer, std::string_view option, double value);         ///< value in [0, 1)
void check_positive(std::string_view optimizer, std::string_view option, double value);      ///< value finite, > 0
void check_not_negative(std::string_view optimizer, std::string_view option, double value);  ///< value finite, >= 0

}  // namespace tutti
