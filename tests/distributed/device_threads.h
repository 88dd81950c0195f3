// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/tests/test_devices.h>

#include <cstddef>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace tutti::testing {

/// Runs `work(d)` on a thread of its own for each device; returns what each threw ("" for nothing).
template <class Work> std::vector<std::string> errors_of_devices(std::size_t count, Work work) {
  std::vector<std::string> errors(count);
  std::vector<std::thread> threads;
  for (std::size_t d = 0; d < count; ++d)
    threads.emplace_back([&, d] {
      try {
        work(d);
      } catch (const std::exception& error) {
        errors[d] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

/// Rethrows the first of the threads' errors to the test.
inline void throw_first(const std::vector<std::string>& errors) {
  for (const std::string& error : errors)
    if (!error.empty()) throw std::runtime_error(error);
}

/// Runs them, too; rethrows the first device's error to the test.
template <class Work> void run_devices(std::size_t count, Work work) { throw_first(errors_of_devices(count, work)); }

}  // namespace tutti::testing
