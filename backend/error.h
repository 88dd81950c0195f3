// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

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

/// A matrix that has no such result: singular, not positive definite. Names the operation and which of the matrices.
class LinearAlgebraError : public Error {
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

/// Tells whoever raises an error what the calling thread is doing: see tutti::OperationScope.
class ErrorContext {
 public:
  virtual std::string complete(std::string message) const = 0;
  /// "operand 2", if that is the first that is undefined; "an operand" if none is known to be.
  virtual std::string undefined_operand() const = 0;
  std::string_view operation() const noexcept { return operation_; }

 protected:
  explicit ErrorContext(std::string_view operation) : operation_(operation) {}
  ~ErrorContext() = default;

 private:
  std::string_view operation_;
};
extern constinit thread_local const ErrorContext* error_context;

/// The operation that the calling thread was asked for, for what is recorded on the way; `inner` if that is all.
inline std::string_view operation_called(std::string_view inner) noexcept {
  return error_context != nullptr ? error_context->operation() : inner;
}

/// Say where the calling thread is in its program, and in which module, or "". Set by tutti::Scope, tutti::ModuleCall.
extern constinit std::atomic<std::string (*)()> place_of_thread;
extern constinit std::atomic<std::string (*)()> module_of_thread;

/// True for errors that may be about an operation's operands. What goes wrong between devices, in a capture, in memory
/// or in a file is about something else, whatever runs meanwhile.
template <class E> inline constexpr bool about_operands =
    std::is_same_v<E, Error> || std::is_same_v<E, ShapeError> || std::is_same_v<E, DTypeError> ||
    std::is_same_v<E, DeviceError> || std::is_same_v<E, AutodiffError> || std::is_same_v<E, LinearAlgebraError>;

/// The message and, unless it says so already, what the calling thread is doing and where.
std::string completed(std::string message, bool about_operands);

}  // namespace detail

/// Throws `E` with the message. Within a Scope or a module it ends with its name; within an operation on tensors it
/// names that and its operands.
template <class E = Error> [[noreturn]] void raise_message(std::string message) {
  throw E(detail::completed(std::move(message), detail::about_operands<E>));
}

}  // namespace tutti
