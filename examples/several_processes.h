// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/error.h>
#include <tutti/distributed/processes/launch_environment.h>

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

namespace examples {

/// The command `tutti`: beside this program, where the build has it, also for a program of ./dev demo, which lies in
/// the build's folder itself, or in a folder of PATH. Error naming the places without it.
inline std::string launcher() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  const std::array<std::filesystem::path, 3> places{self / "tutti", self / "command" / "tutti",
                                                    self.parent_path() / "command" / "tutti"};
  for (const auto& place : places)
    if (access(place.c_str(), X_OK) == 0) return place;
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (const auto place = std::filesystem::path(folder) / "tutti"; access(place.c_str(), X_OK) == 0) return place;
  throw tutti::Error("--processes starts this program by the command tutti, which is none of " + places[0].string() +
                     ", " + places[1].string() + ", " + places[2].string() + ", and not in PATH");
}

/// Sees to it that --processes holds: returns in a process that is one of so many, else becomes
/// `tutti launch -n COUNT -- this program`. Without the option there are as many as a launcher has started. Throws
/// Error where a launcher has started another number, for a count below 1, and where there is no `tutti`.
inline void start_processes(std::optional<std::int64_t> count, int argc, char** argv) {
  const tutti::LaunchPlace place = tutti::launch_place();
  if (!count) return;
  const std::string asked = "--processes " + std::to_string(*count);
  if (*count < 1) throw tutti::Error(asked + ": at least one is needed");
  if (*count == place.size) return;
  if (!place.alone())
    throw tutti::Error(asked + ": " + std::string(place.launcher) + " has started " + std::to_string(place.size));
  std::vector<std::string> words{launcher(), "launch",
                                 "-n",       std::to_string(*count),
                                 "--",       std::filesystem::read_symlink("/proc/self/exe").string()};
  words.insert(words.end(), argv + 1, argv + argc);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv(arguments[0], arguments.data());
  throw tutti::Error(asked + ": cannot start " + words[0] + ": " + std::strerror(errno));
}

}  // namespace examples
