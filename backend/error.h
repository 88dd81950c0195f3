// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <stdexcept>
#include <string>

namespace tutti {

/// Everything that Tutti throws derives from this. A message reads `[operation] what failed, on what, what to do`.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Operands whose shapes, ranks or axes do not fit.
class ShapeError : public Error {
 public:
  using Error::Error;
};

/// An operand of a type that the operation does not take.
class DTypeError : public Error {
 public:
  using Error::Error;
};

/// Operands on different devices, an unknown device, or a kind of device that was not built.
class DeviceError : public Error {
 public:
  using Error::Error;
};

/// An allocation over the pool's limit or the machine's memory; says what was asked for and what was held.
class OutOfMemoryError : public Error {
 public:
  using Error::Error;
};

/// A graph used in a way that has no gradient: no path, freed buffers, accumulation where it is refused.
class AutodiffError : public Error {
 public:
  using Error::Error;
};

/// A step that cannot be captured for replays, or did not do the same when it was captured again: names the operation.
class CaptureError : public Error {
 public:
  using Error::Error;
};

/// The sync server's errors: mismatches, missing devices, failures of peers. Names parameter and devices.
class SyncError : public Error {
 public:
  using Error::Error;
};

/// A missing, truncated or malformed file; the message holds the path and where known the line or offset.
class DataError : public Error {
 public:
  using Error::Error;
};

namespace detail {

/// Says where the calling thread is in its program, or "". Set by tutti::Scope, for whoever throws below it.
inline constinit std::atomic<std::string (*)()> place_of_thread{nullptr};

/// The message and, unless it says so already, where the calling thread is.
inline std::string placed(std::string message) {
  const auto place_of = place_of_thread.load(std::memory_order_relaxed);
  if (place_of == nullptr) return message;
  const std::string place = place_of();
  return place.empty() || message.find(place) != std::string::npos ? message : message + " (in " + place + ")";
}

}  // namespace detail

/// Throws `E` with a formatted message: `raise<ShapeError>("[matmul] inner dimensions differ: {} x {}", a, b)`. Within
/// a Scope the message ends with its name.
template <class E = Error, class... Args> [[noreturn]] void raise(fmt::format_string<Args...> format, Args&&... args) {
  throw E(detail::placed(fmt::format(format, std::forward<Args>(args)...)));
}

}  // namespace tutti
