// SPDX-License-Identifier: Apache-2.0
#include <tutti/command/info/host/cgroup_limits.h>

#include <tutti/backend/process/host_files.h>

#include <algorithm>
#include <charconv>
#include <string>

namespace tutti::info {

namespace {

namespace fs = std::filesystem;

std::optional<std::uint64_t> number_of(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

template <class T> void take_least(std::optional<T>& least, std::optional<T> other) {
  if (other) least = least ? std::min(*least, *other) : *other;
}

std::optional<std::uint64_t> memory_limit(const fs::path& folder, bool is_unified) {
  constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 60U;  // version 1 writes the largest number of pages
  const auto limit = number_of(text_of_file(folder / (is_unified ? "memory.max" : "memory.limit_in_bytes")));
  return limit && *limit < kNoLimit ? limit : std::nullopt;
}

std::optional<double> core_limit(const fs::path& folder, bool is_unified) {
  std::string quota = text_of_file(folder / (is_unified ? "cpu.max" : "cpu.cfs_quota_us"));
  std::string period = is_unified ? "" : text_of_file(folder / "cpu.cfs_period_us");
  if (const std::size_t blank = quota.find(' '); is_unified && blank != std::string::npos) {
    period = quota.substr(blank + 1);
    quota.resize(blank);
  }
  const auto time = number_of(quota);  // "max" and -1 are no limit
  const auto each = number_of(period);
  if (!time || !each || *each == 0) return std::nullopt;
  return static_cast<double>(*time) / static_cast<double>(*each);
}

/// Calls `look` with the group's folder and those around it, up to the hierarchy's own.
template <class F> void for_each_group(const fs::path& hierarchy, const std::string& group, const F& look) {
  fs::path within = fs::path(group).relative_path();
  for (;;) {
    look(hierarchy / within);
    if (within.empty()) return;
    within = within.parent_path();
  }
}

bool names(const std::string& controllers, const std::string& wanted) {
  return ("," + controllers + ",").find("," + wanted + ",") != std::string::npos;
}

}  // namespace

CgroupLimits cgroup_limits(const fs::path& root) {
  CgroupLimits limits;
  const fs::path mounted = root / "sys/fs/cgroup";
  for (const std::string& line : lines_of_text(text_of_file(root / "proc/self/cgroup"))) {  // "4:cpu,cpuacct:/group"
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    const bool is_unified = controllers.empty();
    if (is_unified || names(controllers, "memory"))
      for_each_group(is_unified ? mounted : mounted / "memory", group, [&](const fs::path& folder) {
        take_least(limits.memory_bytes, memory_limit(folder, is_unified));
      });
    if (is_unified || names(controllers, "cpu"))
      for_each_group(is_unified ? mounted : mounted / "cpu", group,
                     [&](const fs::path& folder) { take_least(limits.cores, core_limit(folder, is_unified)); });
  }
  return limits;
}

}  // namespace tutti::info
