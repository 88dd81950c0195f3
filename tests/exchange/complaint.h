// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/error.h>
#include <tutti/tests/exchange/temporary_folder.h>

#include <doctest/doctest.h>

#include <string>

namespace tutti::testing {

/// What `read(path)` says about a file of these contents: its DataError, which names the file; "" if it takes it.
template <class Read> std::string complaint_of(Read read, const std::string& contents) {
  const TemporaryFolder folder;
  const std::string path = folder.file("file");
  write_file(path, contents);
  try {
    read(path);
  } catch (const DataError& error) {
    CHECK(std::string(error.what()).find(path) != std::string::npos);
    return error.what();
  }
  return "";
}

inline bool mentions(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

}  // namespace tutti::testing
