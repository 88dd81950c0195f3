// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/error.h>

#include <string>

namespace tutti::testing {

/// What the Error says that `f` throws; "nothing" if it throws none.
std::string error_of(const auto& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

}  // namespace tutti::testing
