// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace tutti::launch {

// --- statuses with which the launcher ends; those of programs that cannot be started are shells'
inline constexpr int kCannotLaunch = 1;  ///< the system refused something
inline constexpr int kBadArguments = 2;  ///< arguments that cannot be meant
inline constexpr int kCannotExecute = 126;
inline constexpr int kNotFound = 127;
inline constexpr int kSignalled = 128;  ///< plus the number of the signal that killed a process

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
