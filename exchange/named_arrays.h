// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>

#include <string>
#include <utility>
#include <vector>

namespace tutti {

using NamedArrays = std::vector<std::pair<std::string, Array>>;

}  // namespace tutti
