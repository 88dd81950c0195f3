// SPDX-License-Identifier: Apache-2.0
#pragma once

// Checks of operands before an operation makes an output. The messages name the operation and the operands.

#include <tutti/backend/array.h>

#include <string>
#include <string_view>

namespace tutti::checks {

/// "f32 [64, 784] on cpu:0".
std::string describe(const Array&);

/// The shape of images as the caller gave them: to an operation named "...1d" as sequences, which are images of one
/// row.
std::string given_images(std::string_view operation, const Shape&);

[[noreturn]] void raise_undefined(std::string_view operation);
[[noreturn]] void raise_devices(std::string_view operation, const Array& lhs, const Array& rhs);
[[noreturn]] void raise_dtypes(std::string_view operation, const Array& lhs, const Array& rhs);
[[noreturn]] void raise_dtype(std::string_view operation, const Array&, std::string_view expected);
[[noreturn]] void raise_enumerator(std::string_view operation, std::string_view type, int value, int last);

inline void require_defined(std::string_view operation, const Array& array) {
  if (!array.defined()) raise_undefined(operation);
}

/// Both defined and on one device.
inline void require_same_device(std::string_view operation, const Array& lhs, const Array& rhs) {
  require_defined(operation, lhs);
  require_defined(operation, rhs);
  if (lhs.device() != rhs.device()) raise_devices(operation, lhs, rhs);
}

/// Both defined, on one device and of one dtype.
inline void require_alike(std::string_view operation, const Array& lhs, const Array& rhs) {
  require_same_device(operation, lhs, rhs);
  if (lhs.dtype() != rhs.dtype()) raise_dtypes(operation, lhs, rhs);
}

inline void require_dtype(std::string_view operation, const Array& array, DType expected) {
  if (array.dtype() != expected) raise_dtype(operation, array, to_string(expected));
}

inline void require_floating(std::string_view operation, const Array& array) {
  if (!is_floating(array.dtype())) raise_dtype(operation, array, "a floating type");
}

inline void require_number(std::string_view operation, const Array& array) {
  if (array.dtype() == DType::boolean) raise_dtype(operation, array, "numbers");
}

/// One of the enumerators 0 ... `last`, not another number cast to their type.
template <class E> void require_enumerator(std::string_view operation, std::string_view type, E value, E last) {
  if (value > last) raise_enumerator(operation, type, static_cast<int>(value), static_cast<int>(last));
}

/// The array that an operation writes to: `given` if it is defined (then contiguous, and of just this shape, dtype and
/// device), else a new array.
Array output(std::string_view operation, const Array& given, const Shape&, DType, Device);

void require_rank(std::string_view operation, std::string_view operand, const Array&, std::size_t rank);
void require_shape(std::string_view operation, std::string_view operand, const Array&, const Shape& expected);

}  // namespace tutti::checks
