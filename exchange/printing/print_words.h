// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/dtype.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace tutti::detail {

/// Each element as text, all of one width, so that columns align: NumPy's rules. `is_scalar`: of an array of rank 0.
std::vector<std::string> element_words(DType, std::span<const std::byte> elements, int precision, bool is_scalar);

}  // namespace tutti::detail
