// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/process/environment.h>

#include <tutti/backend/raise.h>

#include <charconv>
#include <cstdlib>

namespace tutti {

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

}  // namespace tutti
