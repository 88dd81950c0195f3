// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/references/declarations.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <string_view>

namespace tutti::testing {

namespace {

/// The next line, without its comment; with those that follow where it begins a declaration whose parentheses are
/// still open.
bool next_declaration(std::istream& lines, std::string& declaration) {
  declaration.clear();
  for (std::string line; std::getline(lines, line);) {
    line.erase(std::min(line.find("//"), line.size()));
    declaration += declaration.empty() ? line : " " + line.substr(std::min(line.find_first_not_of(' '), line.size()));
    const bool begins = !declaration.empty() && std::isalpha(static_cast<unsigned char>(declaration[0])) != 0;
    if (!begins || std::ranges::count(declaration, '(') <= std::ranges::count(declaration, ')')) return true;
  }
  return false;
}

/// What it declares, if that is a free function that takes a Tensor; else "".
std::string declared_function(std::string line) {
  if (line.starts_with("template <")) line.erase(0, line.find("> ") + 2);
  const auto open = line.find('(');
  const auto space = line.rfind(' ', open);
  if (open == std::string::npos || space == std::string::npos || space > open) return "";
  if (line.find("Tensor", open) == std::string::npos || std::isalpha(static_cast<unsigned char>(line[0])) == 0)
    return "";
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  const std::string type = line.substr(0, space);
  if (!std::ranges::all_of(
          type, [&](char c) { return is_word(c) || std::string_view(":<>, &*").find(c) != std::string_view::npos; }))
    return "";
  std::string name = line.substr(space + 1, open - space - 1);
  name.erase(0, std::min(name.find_first_not_of("&*"), name.size()));
  if (name.starts_with("operator") && name.size() > 8) return name;
  const bool is_function =
      !name.empty() && std::islower(static_cast<unsigned char>(name[0])) != 0 && std::ranges::all_of(name, is_word);
  return is_function ? name : "";
}

}  // namespace

Declarations declared_functions(std::istream& header) {
  Declarations found;
  for (std::string line; next_declaration(header, line);)
    if (const std::string name = declared_function(line); !name.empty()) found.emplace(name, line);
  return found;
}

Declarations declared_functions() {
  Declarations found;
  for (const char* folder : {"autodiff", "nn"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.path().extension() != ".h") continue;
      std::ifstream header(entry.path());
      found.merge(declared_functions(header));
    }
  return found;
}

}  // namespace tutti::testing
