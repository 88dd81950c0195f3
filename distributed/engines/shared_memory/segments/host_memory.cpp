// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/shared_memory/segments/host_memory.h>

#include <tutti/backend/raise.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

namespace tutti {

namespace {

using Path = std::filesystem::path;

/// Names of one version's files in a control group's folder.
struct GroupFiles {
  const char* most;
  const char* used;
  const char* cached;  // its line in memory.stat
};
constexpr GroupFiles kVersion2{"memory.max", "memory.current", "inactive_file"};
constexpr GroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};

// None if there is no such file, or it holds a word, as "max".
std::optional<std::uint64_t> number_in(const Path& file) {
  std::ifstream in(file);
  std::uint64_t number = 0;
  return in >> number ? std::optional(number) : std::nullopt;
}

// The number behind a key, in a file of lines "key number".
std::optional<std::uint64_t> number_at(const Path& file, std::string_view key) {
  std::ifstream in(file);
  std::string word;
  while (in >> word)
    if (word == key) {
      std::uint64_t number = 0;
      return in >> number ? std::optional(number) : std::nullopt;
    }
  return std::nullopt;
}

void require_below(const Path& folder, const GroupFiles& files, std::size_t bytes, std::string_view what) {
  const auto most = number_in(folder / files.most);
  const auto used = number_in(folder / files.used);
  if (!most || !used) return;
  const std::uint64_t cached = number_at(folder / "memory.stat", files.cached).value_or(0);
  const std::uint64_t held = *used - std::min(*used, cached);
  const std::uint64_t left = *most - std::min(*most, held);
  if (bytes > left)
    raise<OutOfMemoryError>("[shared_memory] {} needs {} bytes: {} allows {}, of which {} are left", what, bytes,
                            (folder / files.most).string(), *most, left);
}

// The group's folder and all above it, up to where its hierarchy is mounted. In a container the path may be another
// place's: then only the mounted ones exist.
void require_in_groups(const Path& mounted, const Path& group, const GroupFiles& files, std::size_t bytes,
                       std::string_view what) {
  Path folder = mounted;
  require_below(folder, files, bytes, what);
  for (const Path& name : group.relative_path()) {
    if (name == "..") return;
    folder /= name;
    require_below(folder, files, bytes, what);
  }
}

bool names_memory(std::string_view controllers) {
  while (!controllers.empty()) {
    const std::size_t end = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, end) == "memory") return true;
    controllers.remove_prefix(std::min(end + 1, controllers.size()));
  }
  return false;
}

}  // namespace

void require_memory(std::size_t bytes, std::string_view what, const Path& root) {
  const Path meminfo = root / "proc/meminfo";
  if (const auto available = number_at(meminfo, "MemAvailable:"); available && bytes / 1024 > *available)
    raise<OutOfMemoryError>("[shared_memory] {} needs {} bytes: {} says that {} are available", what, bytes,
                            meminfo.string(), *available * 1024);
  // Lines "number:controllers:path"; version 2 has no controllers.
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const Path path = line.substr(second + 1);
    if (controllers.empty())
      require_in_groups(root / "sys/fs/cgroup", path, kVersion2, bytes, what);
    else if (names_memory(controllers))
      require_in_groups(root / "sys/fs/cgroup/memory", path, kVersion1, bytes, what);
  }
}

}  // namespace tutti
