// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/process/host_files.h>

#include <fstream>
#include <iterator>
#include <sstream>

namespace tutti {

namespace {

constexpr const char* kBlanks = " \t\r\n";

std::string stripped(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1));
}

}  // namespace

std::string text_of_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return stripped(std::string(std::istreambuf_iterator<char>(file), {}));
}

std::vector<std::string> lines_of_text(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream from(text);
  for (std::string line; std::getline(from, line);) lines.push_back(line);
  return lines;
}

std::string field_of(const std::string& text, std::string_view name) {
  for (const std::string& line : lines_of_text(text)) {
    const std::size_t colon = line.find(':');
    if (colon != std::string::npos && stripped(line.substr(0, colon)) == name) return stripped(line.substr(colon + 1));
  }
  return {};
}

}  // namespace tutti
