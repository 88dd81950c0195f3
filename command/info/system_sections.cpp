// SPDX-License-Identifier: Apache-2.0
// What the system says of this machine and process.
#include <tutti/command/info/report_sections.h>

#include <tutti/backend/process/environment.h>
#include <tutti/backend/process/host_files.h>
#include <tutti/command/info/host/cgroup_limits.h>
#include <tutti/command/info/host/processor_facts.h>

#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace tutti::info {

namespace {

/// The value of NAME="value" in /etc/os-release.
std::string distribution() {
  constexpr std::string_view kName = "PRETTY_NAME=";
  for (std::string line : lines_of_text(text_of_file("/etc/os-release"))) {
    if (!line.starts_with(kName)) continue;
    line.erase(0, kName.size());
    std::erase(line, '"');
    return line;
  }
  return "unknown";
}

Report limit(rlim_t value) { return value == RLIM_INFINITY ? Report("unlimited") : Report(value); }

Report limits_of(int resource, const char* suffix) {
  rlimit limits{};
  if (getrlimit(static_cast<__rlimit_resource>(resource), &limits) != 0)
    return {{"trouble", "the system does not tell"}};
  return {{std::string("soft") + suffix, limit(limits.rlim_cur)},
          {std::string("hard") + suffix, limit(limits.rlim_max)}};
}

/// Of "always [madvise] never" the word that is chosen.
std::string chosen_word(const std::string& text) {
  const std::size_t begin = text.find('[');
  const std::size_t end = text.find(']');
  return begin < end && end != std::string::npos ? text.substr(begin + 1, end - begin - 1) : "unknown";
}

// Variables that are not ours, and change what happens.
constexpr std::array<std::string_view, 8> kOthers{"CUDA_MODULE_LOADING", "CUDA_VISIBLE_DEVICES", "GLIBC_TUNABLES",
                                                  "LD_LIBRARY_PATH",     "LD_PRELOAD",           "MALLOC_ARENA_MAX",
                                                  "NCCL_DEBUG",          "NCCL_SOCKET_IFNAME"};

bool is_told(std::string_view name) {
  return is_own_variable(name) || std::ranges::find(kOthers, name) != kOthers.end();
}

}  // namespace

Report system_section() {
  Report section;
  utsname names{};
  if (uname(&names) == 0)
    section["kernel"] = fmt::format("{} {} {}", static_cast<const char*>(names.sysname),
                                    static_cast<const char*>(names.release), static_cast<const char*>(names.machine));
  section["distribution"] = distribution();
  section["C_library"] = fmt::format("glibc {}", gnu_get_libc_version());
  return section;
}

Report processor_section() {
  const ProcessorFacts facts = processor_facts();
  Report section;
  section["model"] = facts.model.empty() ? "unknown" : facts.model;
  section["cores_online"] = facts.online_cores;
  Report& caches = section["caches"] = Report::object();
  for (const auto& [name, size] : facts.caches) caches[name] = size;
  section["instruction_sets"] = facts.instruction_sets;
  section["lacks"] = facts.missing_instruction_sets;
  section["memory"] = {{"total_bytes", facts.memory_bytes}, {"available_bytes", facts.available_memory_bytes}};
  return section;
}

Report limits_section() {
  Report section;
  section["locked_memory"] = limits_of(RLIMIT_MEMLOCK, "_bytes");
  section["open_files"] = limits_of(RLIMIT_NOFILE, "");
  section["processes"] = limits_of(RLIMIT_NPROC, "");
  const CgroupLimits group = cgroup_limits();
  if (group.memory_bytes)
    section["cgroup_memory_bytes"] = *group.memory_bytes;
  else
    section["cgroup_memory_bytes"] = "unlimited";
  if (group.cores)
    section["cgroup_cores"] = *group.cores;
  else
    section["cgroup_cores"] = "unlimited";
  const std::string folder = "/sys/kernel/mm/transparent_hugepage/";
  section["huge_pages"] = {{"memory", chosen_word(text_of_file(folder + "enabled"))},
                           {"shared_memory", chosen_word(text_of_file(folder + "shmem_enabled"))}};
  return section;
}

Report environment_section() {
  Report section = Report::object();
  for (const auto& [name, value] : shown_variables(is_told)) section[name] = value;
  return section;
}

}  // namespace tutti::info
