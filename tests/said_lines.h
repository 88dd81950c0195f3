// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the programs of tests tell on standard output, line by line.

#include <cstdio>
#include <exception>
#include <string>

namespace tutti::testing {

inline void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

/// Says what `act` throws, or that nothing was wrong.
template <class Act> void say_error_of(const char* what, Act act) {
  try {
    act();
    say(std::string(what) + ": nothing was wrong");
  } catch (const std::exception& error) {
    say(std::string(what) + ": " + error.what());
  }
}

}  // namespace tutti::testing
