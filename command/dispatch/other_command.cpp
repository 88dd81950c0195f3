// SPDX-License-Identifier: Apache-2.0
#include <tutti/command/dispatch/other_command.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <system_error>

namespace tutti::dispatch {

namespace {

// Statuses as shells have them.
constexpr int kBadArguments = 2;
constexpr int kCannotExecute = 126;
constexpr int kNotFound = 127;

constexpr std::array<OtherCommand, 4> kCommands{{
    {"bench", "Runs the library's benches beside this machine's limits, and compares runs."},
    {"convert", "Writes the weights of one file to another one, between .safetensors and .npz."},
    {"info", "Says what a report of a problem needs: the build, devices, engines, libraries and limits."},
    {"report", "Shows runs in one HTML file: curves, the timeline of steps, parameters; --live while they go on."},
}};

bool is_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char each) {
    return (each >= 'a' && each <= 'z') || (each >= '0' && each <= '9') || each == '-' || each == '_';
  });
}

/// Why the program at that place was not started; empty: there is none.
std::string try_to_become(const std::string& place, std::vector<char*>& words) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(place, none)) return {};
  std::string program = place;
  words.front() = program.data();
  execv(place.c_str(), words.data());
  return fmt::format("cannot start {}: {}", place, std::strerror(errno));
}

}  // namespace

std::span<const OtherCommand> other_commands() { return kCommands; }

Places places_of(const std::string& name) {
  const std::string file = "tutti-" + name;
  Places places;
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  if (!error)
    for (const auto& folder : {self, self / name, self / TUTTI_LIBEXEC_FROM_BIN})
      places.own.push_back((folder / file).lexically_normal());
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (folder.starts_with('/')) places.in_path.push_back(std::filesystem::path(folder) / file);
  return places;
}

int become(const std::string& name, const std::vector<std::string>& arguments) {
  const bool is_known = std::ranges::any_of(kCommands, [&](const OtherCommand& each) { return each.name == name; });
  const Places places = is_name(name) ? places_of(name) : Places{};
  std::vector<std::string> own = arguments;
  std::vector<char*> words{nullptr};  // its path
  for (std::string& argument : own) words.push_back(argument.data());
  words.push_back(nullptr);
  for (const auto* each : {&places.own, &places.in_path})
    for (const std::string& place : *each)
      if (const std::string trouble = try_to_become(place, words); !trouble.empty()) {
        fmt::print(stderr, "tutti {}: {}\n", name, trouble);
        return kCannotExecute;
      }
  if (!is_known) {
    fmt::print(stderr, "tutti: there is no command {}; tutti --help lists them\n", name);
    return kBadArguments;
  }
  fmt::print(stderr,
             "tutti {}: it is a program of its own, tutti-{}, which is neither {}, nor in a folder of PATH; install it "
             "with the library\n",
             name, name, fmt::join(places.own, ", nor "));
  return kNotFound;
}

}  // namespace tutti::dispatch
