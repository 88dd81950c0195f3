// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

namespace tutti::documents {

/// Makes a block of a document known to printing.cpp by its place. tools/documents/doc_examples.py writes one for each
/// that prints.
class Printing {
 public:
  using Function = int (*)();

  Printing(const char* where, Function run) { all().emplace(where, run); }

  static std::map<std::string, Function>& all() {
    static std::map<std::string, Function> known;
    return known;
  }
};

/// Runs a function of a document, or a program's main without arguments; returns its status.
inline int status_of(void (*run)()) {
  run();
  return 0;
}
inline int status_of(int (*main)()) { return main(); }
inline int status_of(int (*main)(int, char**)) {
  char name[] = "program";
  char* arguments[] = {name, nullptr};
  return main(1, arguments);
}

}  // namespace tutti::documents
