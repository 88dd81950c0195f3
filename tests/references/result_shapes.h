// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/tests/references/operations.h>

#include <optional>
#include <vector>

namespace tutti::testing {

__extension__ typedef __int128 WideInteger;  ///< holds what overflows 64 bits
using WideShape = std::vector<WideInteger>;

/// The shape that a call which succeeds must give, by the operation's formula in 128 bits; none where no formula
/// stands here, of operations whose integers are axes alone.
std::optional<WideShape> shape_of_result(const std::string& operation, const Call&);

}  // namespace tutti::testing
