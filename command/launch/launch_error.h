// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace tutti::launch {

/// What a shell says of a program that it cannot start, and the launcher of itself.
inline constexpr int kCannotLaunch = 1;  ///< the system refused something
inline constexpr int kBadArguments = 2;  ///< what was asked for cannot be meant
inline constexpr int kCannotExecute = 126;
inline constexpr int kNotFound = 127;
inline constexpr int kSignalled = 128;  ///< and the signal's number

/// Why the launcher gives up, and its exit status.
class LaunchError : public std::runtime_error {
 public:
  LaunchError(int status, const std::string& text) : std::runtime_error(text), status_(status) {}
  int status() const noexcept { return status_; }

 private:
  int status_;
};

template <class... Args> [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  throw LaunchError(kBadArguments, fmt::format(format, std::forward<Args>(args)...));
}

/// Throws what errno says about something that was to be done: `raise_errno("make a pipe")`.
[[noreturn]] void raise_errno(const std::string& what);
[[noreturn]] void raise_errno(const std::string& what, int error);

}  // namespace tutti::launch
