// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

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

/// Throws `E` with a formatted message: `raise<ShapeError>("[matmul] inner dimensions differ: {} x {}", a, b)`.
template <class E = Error, class... Args> [[noreturn]] void raise(fmt::format_string<Args...> format, Args&&... args) {
  throw E(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace tutti
