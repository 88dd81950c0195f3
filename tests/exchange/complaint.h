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
    const std::string text = error.what();
    CHECK_MESSAGE(text.find(path) != std::string::npos, text);
    return text;
  }
  return "";
}

/// The same, and it names an offset.
template <class Read> std::string complaint_with_offset(Read read, const std::string& contents) {
  const std::string text = complaint_of(read, contents);
  CHECK_MESSAGE((text.empty() || text.find("offset ") != std::string::npos), text);
  return text;
}

inline bool mentions(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

}  // namespace tutti::testing
