// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace tutti {

constexpr std::int64_t divide_up(std::int64_t number, std::int64_t by) { return (number + by - 1) / by; }

}  // namespace tutti
