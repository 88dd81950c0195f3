// SPDX-License-Identifier: Apache-2.0
#include <tutti/c_api/calls/guard.h>

#include <doctest/doctest.h>

#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>

using namespace tutti;
using namespace tutti::c_api;

namespace {

template <class E> std::function<void()> throws(E error) {
  return [error] { throw error; };
}

void check_becomes(tutti_status status, const std::string& text, const std::function<void()>& body) {
  CHECK(guarded("tutti_call", body) == status);
  CHECK(std::string(tutti_last_error()) == text);
}

}  // namespace

TEST_CASE("C API: each exception becomes a status and a text") {
  check_becomes(TUTTI_ERROR, "[tutti_call] a", throws(Error("a")));
  check_becomes(TUTTI_ERROR, "tutti_call: [inverse] a", throws(LinearAlgebraError("[inverse] a")));
  check_becomes(TUTTI_INVALID_ARGUMENT, "[tutti_call] a", throws(CallError(TUTTI_INVALID_ARGUMENT, "a")));
  check_becomes(TUTTI_SHAPE_ERROR, "[tutti_call] a", throws(ShapeError("a")));
  check_becomes(TUTTI_DTYPE_ERROR, "[tutti_call] a", throws(DTypeError("a")));
  check_becomes(TUTTI_DEVICE_ERROR, "[tutti_call] a", throws(DeviceError("a")));
  check_becomes(TUTTI_OUT_OF_MEMORY, "[tutti_call] a", throws(OutOfMemoryError("a")));
  check_becomes(TUTTI_AUTODIFF_ERROR, "[tutti_call] a", throws(AutodiffError("a")));
  check_becomes(TUTTI_SYNC_ERROR, "[tutti_call] a", throws(SyncError("a")));
  check_becomes(TUTTI_DATA_ERROR, "[tutti_call] a", throws(DataError("a")));
  check_becomes(TUTTI_OUT_OF_MEMORY, "[tutti_call] the host has no more memory", throws(std::bad_alloc()));
  check_becomes(TUTTI_INTERNAL_ERROR, "[tutti_call] a", throws(std::logic_error("a")));
  check_becomes(TUTTI_INTERNAL_ERROR, "[tutti_call] an exception that is no std::exception", throws(7));
}

TEST_CASE("C API: the last error is the thread's own, and success leaves it") {
  guarded("tutti_call", throws(Error("mine")));
  std::thread([] {
    CHECK(std::string(tutti_last_error()).empty());
    guarded("tutti_call", throws(Error("theirs")));
  }).join();
  CHECK(guarded("tutti_call", [] {}) == TUTTI_OK);
  CHECK(std::string(tutti_last_error()) == "[tutti_call] mine");
}

TEST_CASE("C API: a function of the caller's passes the error of its last call on") {
  forget_failure();
  CHECK_NOTHROW(check_returned(0, "on cpu:0"));
  CHECK_THROWS_WITH_AS(check_returned(TUTTI_SHAPE_ERROR, "on cpu:0"), "the caller's function returned 3 on cpu:0",
                       CallError);
  guarded("tutti_call", throws(ShapeError("a")));
  CHECK_THROWS_WITH_AS(check_returned(TUTTI_SHAPE_ERROR, "on cpu:0"), "[tutti_call] a", CallError);
  CHECK_THROWS_AS(check_returned(1, "on cpu:0"), CallError);
  guarded("tutti_call", throws(SyncError("b")));
  CHECK_THROWS_WITH_AS(check_returned(TUTTI_SYNC_ERROR, "on cpu:0"), "[tutti_call] b", SyncError);
}
