// SPDX-License-Identifier: Apache-2.0
#pragma once

// How operations run on bf16, f16, i8 and u8, on every kind of device: what they read is widened to the type that it is
// computed in, and the result is narrowed, once. Backends see these dtypes where elements only move or are computed one
// by one, and in kernels for which they say so (backend.h).

#include <tutti/backend/array.h>

#include <string_view>

namespace tutti {

inline bool is_narrow(const Array& array) { return is_narrow(array.dtype()); }
inline Array widened(const Array& array) { return array.cast(computed_in(array.dtype())); }

/// `wide` as elements of `dtype`, written to `out` if that is defined.
Array narrowed(std::string_view operation, const Array& wide, DType dtype, const Array& out = {});

}  // namespace tutti
