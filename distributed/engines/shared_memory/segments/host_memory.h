// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>

namespace tutti {

/// Throws OutOfMemoryError, naming the limit and what is left of it, unless the machine and each control group above
/// this process (cgroup v2 and v1) have that much memory left; what is cached of files counts as left. A page of shared
/// memory that is touched beyond a limit ends the process, so that this is asked before. `what`: the memory's use, for
/// the error. `root`: folder in which /proc and /sys are looked for. Limits that cannot be read are none.
void require_memory(std::size_t bytes, std::string_view what, const std::filesystem::path& root = "/");

}  // namespace tutti
