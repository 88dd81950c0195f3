// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/observer/gradient_observer.h>
#include <tutti/backend/array.h>
#include <tutti/backend/stream.h>

#include <cstdint>

namespace tutti {

/// How many elements are NaN or infinite. Waits for `ready` (unrecorded: the contents are there) and reads on the
/// host: made for the thread that has just computed the array. 0 for an undefined array and for integers.
std::int64_t count_non_finite(const Array&, const Event& ready);
std::int64_t count_non_finite(const GradientRef&);  ///< counts in the rows of a sparse one
std::int64_t element_count(const GradientRef&);     ///< how many it looks at

}  // namespace tutti
