// SPDX-License-Identifier: Apache-2.0
#include <tutti/command/info/host/cgroup_limits.h>
#include <tutti/command/info/host/processor_facts.h>
#include <tutti/tests/command/launch_folder.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti::info;
using namespace tutti::testing;

namespace {

/// Files as a system has them, in a folder.
struct System {
  LaunchFolder folder;

  explicit System(const std::vector<std::pair<std::string, std::string>>& files) {
    for (const auto& [path, text] : files) {
      const std::filesystem::path place = folder.path() / path;
      std::filesystem::create_directories(place.parent_path());
      std::ofstream(place) << text;
    }
  }
};

}  // namespace

TEST_CASE("info: limits of control groups of version 2, the least of those around the process") {
  const System system({{"proc/self/cgroup", "0::/outer/inner\n"},
                       {"sys/fs/cgroup/outer/memory.max", "1073741824\n"},
                       {"sys/fs/cgroup/outer/inner/memory.max", "max\n"},
                       {"sys/fs/cgroup/outer/cpu.max", "max 100000\n"},
                       {"sys/fs/cgroup/outer/inner/cpu.max", "150000 100000\n"}});
  const CgroupLimits limits = cgroup_limits(system.folder.path());
  CHECK(limits.memory_bytes == 1U << 30U);
  CHECK(limits.cores == 1.5);
}

TEST_CASE("info: limits of control groups of version 1, also where the group's folder is another one inside") {
  const System system({{"proc/self/cgroup", "9:name=systemd:/\n4:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n"},
                       {"sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n"},
                       {"sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n"},
                       {"sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}});
  const CgroupLimits limits = cgroup_limits(system.folder.path());
  CHECK(limits.memory_bytes == 2U << 30U);
  CHECK(limits.cores == 0.5);
}

TEST_CASE("info: no limits, and nothing to read") {
  const System none({{"proc/self/cgroup", "4:memory:/\n1:cpu:/\nno colons\n"},
                     {"sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"},
                     {"sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"},
                     {"sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}});
  CHECK(!cgroup_limits(none.folder.path()).memory_bytes);
  CHECK(!cgroup_limits(none.folder.path()).cores);
  const System empty({});
  CHECK(!cgroup_limits(empty.folder.path()).memory_bytes);
  CHECK(processor_facts(empty.folder.path()).model.empty());
}

TEST_CASE("info: processor, memory and caches") {
  const System system({{"proc/cpuinfo",
                        "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nflags\t\t: fpu avx2 fma asimd\n"
                        "model name\t: Another\n"},
                       {"proc/meminfo", "MemTotal:        2048 kB\nMemAvailable:    1024 kB\n"},
                       {"sys/devices/system/cpu/cpu0/cache/index0/type", "Data\n"},
                       {"sys/devices/system/cpu/cpu0/cache/index0/level", "1\n"},
                       {"sys/devices/system/cpu/cpu0/cache/index0/size", "32K\n"},
                       {"sys/devices/system/cpu/cpu0/cache/index1/type", "Unified\n"},
                       {"sys/devices/system/cpu/cpu0/cache/index1/level", "2\n"},
                       {"sys/devices/system/cpu/cpu0/cache/index1/size", "1024K\n"}});
  const ProcessorFacts facts = processor_facts(system.folder.path());
  CHECK(facts.model == "Some CPU @ 2 GHz");
  CHECK(facts.memory_bytes == 2U << 20U);
  CHECK(facts.available_memory_bytes == 1U << 20U);
  CHECK(facts.caches == std::vector<std::pair<std::string, std::string>>{{"L1d", "32K"}, {"L2", "1024K"}});
  CHECK(!facts.instruction_sets.empty());
  CHECK(!facts.missing_instruction_sets.empty());
}

TEST_SUITE_END();
