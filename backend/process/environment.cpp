// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/process/environment.h>

#include <tutti/backend/raise.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>

namespace tutti {

namespace {

bool names_secret(std::string name) {
  std::ranges::transform(name, name.begin(), [](unsigned char each) { return std::toupper(each); });
  constexpr std::array<std::string_view, 4> kWords{"SECRET", "PASSWORD", "TOKEN", "KEY"};
  return std::ranges::any_of(kWords, [&](std::string_view word) { return name.find(word) != std::string::npos; });
}

}  // namespace

std::optional<std::string> environment_text(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr || *text == '\0' ? std::nullopt : std::optional<std::string>(text);
}

int environment_number(const char* name, int otherwise, int least, int most) {
  const auto text = environment_text(name);
  if (!text) return otherwise;
  int number = 0;
  const char* const last = text->data() + text->size();
  const auto [end, error] = std::from_chars(text->data(), last, number);
  if (error != std::errc() || end != last || number < least || number > most)
    raise<Error>("[environment] {} is \"{}\": it must be a number from {} to {}", name, *text, least, most);
  return number;
}

bool environment_switch(const char* name) {
  const auto text = environment_text(name);
  if (text && *text != "0" && *text != "1") raise<Error>("[environment] {} is \"{}\": it must be 0 or 1", name, *text);
  return text == "1";
}

bool is_own_variable(std::string_view name) { return name.starts_with("TUTTI_"); }

std::vector<std::pair<std::string, std::string>> shown_variables(const std::function<bool(std::string_view)>& wanted) {
  std::vector<std::pair<std::string, std::string>> shown;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    const std::string_view variable = *each;
    const std::string name(variable.substr(0, variable.find('=')));
    if (name.size() == variable.size() || !wanted(name)) continue;
    shown.emplace_back(name, names_secret(name) ? "(set, not shown)" : variable.substr(name.size() + 1));
  }
  return shown;
}

}  // namespace tutti
