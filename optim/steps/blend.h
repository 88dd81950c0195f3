// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>

namespace tutti {

/// Blends in place, in one pass: to = keep to + share from. Both are contiguous and alike in shape, floating dtype and
/// device.
void blend(const Array& to, double keep, const Array& from, double share);

}  // namespace tutti
