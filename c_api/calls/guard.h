// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/error.h>
#include <tutti/c_api.h>

#include <string>
#include <utility>

namespace tutti::c_api {

/// An error of a call itself, with the status that it ends with.
class CallError : public Error {
 public:
  CallError(tutti_status status, const std::string& message) : Error(message), status_(status) {}
  tutti_status status() const noexcept { return status_; }

 private:
  tutti_status status_;
};

/// An argument that a function cannot use.
[[noreturn]] void refuse(const std::string& message);

/// Keeps the exception that is being handled as the calling thread's last error, and gives its status.
tutti_status report(const char* function) noexcept;

/// Forgets which call failed last on the calling thread, before a function of the caller's runs there.
void forget_failure() noexcept;

/// Throws the error of a function of the caller's that has not returned 0. The status of the last call that failed in
/// it is that call's error, passed on. `where`: "on cpu:1".
void check_returned(int returned, const std::string& where);

/// Runs the body of a function of the API. No exception leaves it.
template <class Body> tutti_status guarded(const char* function, Body&& body) noexcept {
  try {
    std::forward<Body>(body)();
    return TUTTI_OK;
  } catch (...) {
    return report(function);
  }
}

}  // namespace tutti::c_api
