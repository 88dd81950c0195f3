// SPDX-License-Identifier: Apache-2.0
#include <tutti/command/info/report.h>

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace tutti::info {

namespace {

constexpr std::size_t kWidth = 118;
constexpr std::string_view kBytes = "_bytes";

std::string size_text(double bytes) {
  const char* unit = "B";
  for (const char* next : {"KiB", "MiB", "GiB", "TiB"}) {
    if (bytes < 1024) break;
    bytes /= 1024;
    unit = next;
  }
  return fmt::format("{:.{}f} {}", bytes, bytes < 100 && *unit != 'B' ? 1 : 0, unit);
}

std::string shown_name(std::string name) {
  if (name.ends_with(kBytes)) name.resize(name.size() - kBytes.size());
  std::ranges::replace(name, '_', ' ');
  return name;
}

std::string value_text(const std::string& name, const Report& value);

/// "why", or "there, why"; of libraries: "1.2.3 (note)".
std::string judged_text(const std::string& verdict, const Report& value, std::string_view between,
                        std::string_view end) {
  const std::string note = value.value("note", "");
  return note.empty() ? verdict : fmt::format("{}{}{}{}", verdict, between, note, end);
}

std::string object_text(const Report& value) {
  if (value.contains("trouble")) return "not known: " + value["trouble"].get<std::string>();
  if (value.contains("usable")) return judged_text(value["usable"].get<bool>() ? "yes" : "no", value, ": ", "");
  if (value.contains("version")) {
    const auto version = value["version"].get<std::string>();
    return version.empty() ? judged_text("none", value, ": ", "") : judged_text(version, value, " (", ")");
  }
  std::string text;
  for (const auto& [name, member] : value.items()) {
    if (!text.empty()) text += ", ";
    text += name == "name" ? value_text(name, member) : shown_name(name) + " " + value_text(name, member);
  }
  return text.empty() ? "none" : text;
}

std::string value_text(const std::string& name, const Report& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_number() && name.ends_with(kBytes)) return size_text(value.get<double>());
  if (value.is_number_float()) return fmt::format("{:.2f}", value.get<double>());
  if (value.is_object()) return object_text(value);
  if (!value.is_array()) return value.dump();
  std::string text;
  for (const Report& each : value) text += (text.empty() ? "" : each.is_object() ? "; " : " ") + value_text(name, each);
  return text.empty() ? "none" : text;
}

/// Lines of at most that width, broken at blanks where there are any. No control character reaches a terminal.
std::vector<std::string> wrapped(std::string text, std::size_t width) {
  std::ranges::replace_if(
      text, [](unsigned char each) { return each < 0x20 || each == 0x7f; }, '?');
  std::vector<std::string> lines;
  while (text.size() > width) {
    const std::size_t blank = text.rfind(' ', width);
    const std::size_t end = blank == std::string::npos || blank == 0 ? text.find(' ') : blank;
    if (end == std::string::npos) break;
    lines.push_back(text.substr(0, end));
    text.erase(0, end + 1);
  }
  lines.push_back(text);
  return lines;
}

}  // namespace

std::string to_text(const Report& report) {
  std::size_t names = 0;
  for (const auto& [title, section] : report.items())
    for (const auto& [name, value] : section.items()) names = std::max(names, shown_name(name).size());
  const std::size_t indent = names + 4;
  std::string text;
  for (const auto& [title, section] : report.items()) {
    text += title + "\n";
    if (section.empty()) text += "  nothing is set\n";
    std::string above;
    for (const auto& [name, value] : section.items()) {
      // A variable has the name that it is set by.
      std::string start = fmt::format("  {:<{}}", title == "environment" ? name : shown_name(name), names + 2);
      const std::string shown = value_text(name, value);
      const bool is_repeated = shown.size() > kWidth / 2 && shown == above;
      for (const std::string& line : wrapped(is_repeated ? "the same" : shown, kWidth - indent)) {
        text += start + line + "\n";
        start.assign(indent, ' ');
      }
      above = shown;
    }
  }
  return text;
}

}  // namespace tutti::info
