// SPDX-License-Identifier: Apache-2.0
#pragma once

// Errors with formatted messages, for sources of this library and for extensions. It needs the headers of fmt; no other
// public header includes it.
#include <tutti/backend/error.h>

#include <fmt/format.h>

namespace tutti {

namespace detail {

template <class E> [[noreturn]] void throw_error(fmt::string_view format, fmt::format_args arguments) {
  raise_message<E>(fmt::vformat(format, arguments));
}
// Compiled once, for every source throws them.
extern template void throw_error<Error>(fmt::string_view, fmt::format_args);
extern template void throw_error<ShapeError>(fmt::string_view, fmt::format_args);
extern template void throw_error<DTypeError>(fmt::string_view, fmt::format_args);
extern template void throw_error<DeviceError>(fmt::string_view, fmt::format_args);
extern template void throw_error<AutodiffError>(fmt::string_view, fmt::format_args);
extern template void throw_error<SyncError>(fmt::string_view, fmt::format_args);
extern template void throw_error<DataError>(fmt::string_view, fmt::format_args);

}  // namespace detail

/// Throws `E` with a formatted message, as `raise_message` does:
/// `raise<ShapeError>("[matmul] inner dimensions differ: {} x {}", a, b)`.
template <class E = Error, class... Args> [[noreturn]] void raise(fmt::format_string<Args...> format, Args&&... args) {
  detail::throw_error<E>(format, fmt::make_format_args(args...));
}

}  // namespace tutti
