// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>

#include <memory>
#include <span>

namespace tutti {
namespace detail {
[[noreturn]] void raise_not_contiguous(const Array&);
void require_values(std::size_t values, const Shape&, Device);
}  // namespace detail

/// Waits for the work queued on a CPU device, so that an array's memory may be read and written by the caller. Throws
/// DeviceError for an array elsewhere, Error for an undefined one.
void wait_for_host_memory(const Array&);

/// The elements of a contiguous array on a CPU device, row-major, once queued work is done. Valid as long as the array
/// (or another on its storage) lives. Throws DTypeError unless T is the array's type, ShapeError unless contiguous.
template <class T> std::span<T> host_span(const Array& array) {
  wait_for_host_memory(array);
  T* const data = array.data<T>();
  if (!array.is_contiguous()) detail::raise_not_contiguous(array);
  return {data, static_cast<std::size_t>(array.size())};
}

/// An array over the caller's memory on a CPU device, without a copy. `owner` is let go with the last array; without
/// one, the caller keeps the memory until then. Throws ShapeError unless the values fill the shape.
template <class T> Array array_over(std::span<T> values, const Shape& shape,
                                    std::shared_ptr<const void> owner = nullptr, Device device = cpu()) {
  detail::require_values(values.size(), shape, device);
  return Array::over(values.data(), std::move(owner), dtype_of<T>, shape, contiguous_strides(shape), device);
}

}  // namespace tutti
