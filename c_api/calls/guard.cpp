// SPDX-License-Identifier: Apache-2.0
#include <tutti/c_api/calls/guard.h>

#include <tutti/backend/raise.h>

#include <exception>
#include <new>
#include <string_view>

namespace tutti::c_api {
namespace {

struct LastError {
  tutti_status status = TUTTI_OK;
  std::string text;
  const char* shown = "";  // the text, or why there is none
};

LastError& last_error() noexcept {
  thread_local LastError last;
  return last;
}

tutti_status keep(tutti_status status, const char* function, std::string_view message) noexcept {
  LastError& last = last_error();
  last.status = status;
  try {
    // Errors of calls begin with the function in brackets, as those of operations do.
    last.text =
        message.starts_with('[') ? fmt::format("{}: {}", function, message) : fmt::format("[{}] {}", function, message);
    last.shown = last.text.c_str();
  } catch (...) {
    last.shown = "out of memory, for the text of the error too";
  }
  return status;
}

}  // namespace

void refuse(const std::string& message) { throw CallError(TUTTI_INVALID_ARGUMENT, message); }

tutti_status report(const char* function) noexcept {
  try {
    throw;
  } catch (const CallError& error) {
    return keep(error.status(), function, error.what());
  } catch (const ShapeError& error) {
    return keep(TUTTI_SHAPE_ERROR, function, error.what());
  } catch (const DTypeError& error) {
    return keep(TUTTI_DTYPE_ERROR, function, error.what());
  } catch (const DeviceError& error) {
    return keep(TUTTI_DEVICE_ERROR, function, error.what());
  } catch (const OutOfMemoryError& error) {
    return keep(TUTTI_OUT_OF_MEMORY, function, error.what());
  } catch (const AutodiffError& error) {
    return keep(TUTTI_AUTODIFF_ERROR, function, error.what());
  } catch (const SyncError& error) {
    return keep(TUTTI_SYNC_ERROR, function, error.what());
  } catch (const DataError& error) {
    return keep(TUTTI_DATA_ERROR, function, error.what());
  } catch (const Error& error) {
    return keep(TUTTI_ERROR, function, error.what());
  } catch (const std::bad_alloc&) {
    return keep(TUTTI_OUT_OF_MEMORY, function, "the host has no more memory");
  } catch (const std::exception& error) {
    return keep(TUTTI_INTERNAL_ERROR, function, error.what());
  } catch (...) {
    return keep(TUTTI_INTERNAL_ERROR, function, "an exception that is no std::exception");
  }
}

void forget_failure() noexcept { last_error().status = TUTTI_OK; }

void check_returned(int returned, const std::string& where) {
  if (returned == 0) return;
  const LastError& last = last_error();
  if (returned != last.status) {
    const std::string message = fmt::format("the caller's function returned {} {}", returned, where);
    throw CallError(TUTTI_CALLBACK_FAILED, message);
  }
  // An echo of another device's failure, which hides no cause.
  if (returned == TUTTI_SYNC_ERROR) throw SyncError(last.shown);
  throw CallError(last.status, last.shown);
}

}  // namespace tutti::c_api

extern "C" const char* tutti_last_error() { return tutti::c_api::last_error().shown; }
