// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace tutti::info {

/// Limits that the control groups of this process set, of both versions: the least of its own and of those around it.
struct CgroupLimits {
  std::optional<std::uint64_t> memory_bytes;  ///< none: no limit
  std::optional<double> cores;                ///< quota of time, divided by its period; none: no limit
};

/// `root`: where the system's files lie; another one than "/" for tests.
CgroupLimits cgroup_limits(const std::filesystem::path& root = "/");

}  // namespace tutti::info
