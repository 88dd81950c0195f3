// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/calls/operand_checks.h>

#include <tutti/backend/raise.h>

namespace tutti::checks {

namespace {

/// Within an operation on tensors, whose error tells its operands as they were given: these arrays may be made of them.
bool operands_are_told() { return detail::error_context != nullptr; }

std::string told(const Array& array) {
  return operands_are_told() ? std::string(to_string(array.dtype())) : describe(array);
}

}  // namespace

std::string describe(const Array& array) {
  if (!array.defined()) return "undefined";
  return fmt::format("{} {} on {}", to_string(array.dtype()), to_string(array.shape()), to_string(array.device()));
}

std::string given_images(std::string_view operation, const Shape& shape) {
  Shape given = shape;
  if (operation.ends_with("1d") && shape.size() == 4) given.erase(2);
  return to_string(given);
}

void raise_undefined(std::string_view operation) { raise("[{}] an operand is undefined", operation); }

void raise_devices(std::string_view operation, const Array& lhs, const Array& rhs) {
  if (operands_are_told())
    raise<DeviceError>("[{}] operands are on different devices: {} and {}", operation, to_string(lhs.device()),
                       to_string(rhs.device()));
  raise<DeviceError>("[{}] operands are on different devices: {} and {}", operation, describe(lhs), describe(rhs));
}

void raise_dtypes(std::string_view operation, const Array& lhs, const Array& rhs) {
  raise<DTypeError>("[{}] operands have different dtypes: {} and {}", operation, told(lhs), told(rhs));
}

void raise_dtype(std::string_view operation, const Array& array, std::string_view expected) {
  raise<DTypeError>("[{}] takes {}, not {}", operation, expected, told(array));
}

void raise_enumerator(std::string_view operation, std::string_view type, int value, int last) {
  raise("[{}] {} is no {}: there are 0 to {}", operation, value, type, last);
}

Array output(std::string_view operation, const Array& given, const Shape& shape, DType dtype, Device device) {
  if (!given.defined()) return Array::empty(shape, dtype, device);
  if (given.shape() != shape || given.dtype() != dtype || given.device() != device || !given.is_contiguous())
    raise<ShapeError>("[{}] the result, {} {} on {}, does not fit the place given for it, {}", operation,
                      to_string(dtype), to_string(shape), to_string(device), describe(given));
  return given;
}

void require_rank(std::string_view operation, std::string_view operand, const Array& array, std::size_t rank) {
  require_defined(operation, array);
  if (array.rank() != rank)
    raise<ShapeError>("[{}] {} must have rank {}, not {}: {}", operation, operand, rank, array.rank(), describe(array));
}

void require_shape(std::string_view operation, std::string_view operand, const Array& array, const Shape& expected) {
  require_defined(operation, array);
  if (array.shape() != expected)
    raise<ShapeError>("[{}] {} must have shape {}, not {}", operation, operand, to_string(expected),
                      to_string(array.shape()));
}

}  // namespace tutti::checks
