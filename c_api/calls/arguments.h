// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>
#include <tutti/backend/dtype.h>
#include <tutti/backend/shape.h>
#include <tutti/c_api.h>
#include <tutti/c_api/calls/guard.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace tutti::c_api {

/// Throws an error with the parameter's name if it is NULL.
inline void require(const void* pointer, const char* parameter) {
  if (pointer == nullptr) refuse(std::string(parameter) + " is NULL");
}

/// The value that the pointer points to; an error with the parameter's name if it is NULL.
template <class T> T& required(T* pointer, const char* parameter) {
  require(pointer, parameter);
  return *pointer;
}

/// The place of a handle that is to be made; NULL until it is.
template <class T> T*& empty_result(T** result) {
  required(result, "result") = nullptr;
  return *result;
}

inline std::string required_text(const char* text, const char* parameter) { return &required(text, parameter); }

Shape shape_of(const std::int64_t* shape, std::size_t rank);
DType dtype_of_number(tutti_dtype dtype);
tutti_dtype number_of(DType dtype);
Device device_named(const char* device);  ///< an error for one that is not there

}  // namespace tutti::c_api
