// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/error.h>

#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

namespace tutti {

/// Returns what `start()` returns, which starts a thread. Throws E, naming `operation`, if the system has none.
template <class E = Error, class Start> auto with_new_thread(std::string_view operation, Start&& start) {
  try {
    return std::forward<Start>(start)();
  } catch (const std::system_error& error) {
    raise_message<E>("[" + std::string(operation) + "] no thread can be started (" + error.code().message() +
                     "): the limit on processes and threads, or on memory, is reached");
  }
}

/// A thread that runs `work()`. Throws E, naming what it is for, if the system has none.
template <class E = Error, class Work> std::thread start_thread(std::string_view operation, Work&& work) {
  return with_new_thread<E>(operation, [&] { return std::thread(std::forward<Work>(work)); });
}

}  // namespace tutti
