// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/shared_memory/segments/host_memory.h>

#include <tutti/backend/error.h>

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;

namespace {

/// A folder with files as /proc and /sys have them.
class Root {
 public:
  Root() : path_(std::filesystem::temp_directory_path() / ("tutti-root-" + std::to_string(getpid()))) {}
  ~Root() { std::filesystem::remove_all(path_); }
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;

  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text;
  }
  void check_refused(std::size_t bytes, const std::string& text) const {
    CHECK_THROWS_WITH_AS(require_memory(bytes, "a test", path_), doctest::Contains(text.c_str()), OutOfMemoryError);
  }
  void check_allowed(std::size_t bytes) const { CHECK_NOTHROW(require_memory(bytes, "a test", path_)); }

 private:
  std::filesystem::path path_;
};

}  // namespace

TEST_CASE("host_memory: nothing known is no limit") {
  const Root root;
  root.check_allowed(~std::size_t{0});
  root.write("proc/self/cgroup", "0::/gone\nnonsense\n:\n");
  root.check_allowed(~std::size_t{0});
}

TEST_CASE("host_memory: what the machine has") {
  const Root root;
  root.write("proc/meminfo", "MemTotal: 100 kB\nMemAvailable:       50 kB\n");
  root.check_allowed(50 * 1024);
  root.check_refused(52 * 1024, "a test needs 53248 bytes: ");
  root.check_refused(52 * 1024, "proc/meminfo says that 51200 are available");
}

TEST_CASE("host_memory: every control group above counts, version 2") {
  const Root root;
  root.write("proc/self/cgroup", "0::/job/step\n");
  root.write("sys/fs/cgroup/job/memory.max", "1000\n");
  root.write("sys/fs/cgroup/job/memory.current", "700\n");
  root.write("sys/fs/cgroup/job/step/memory.max", "max\n");
  root.write("sys/fs/cgroup/job/step/memory.current", "600\n");
  root.check_allowed(300);
  root.check_refused(301, "job/memory.max allows 1000, of which 300 are left");
  root.write("sys/fs/cgroup/job/memory.stat", "anon 500\ninactive_file 150\n");
  root.check_allowed(450);
  root.check_refused(451, "of which 450 are left");
  root.write("sys/fs/cgroup/job/step/memory.max", "400\n");
  root.check_refused(1, "job/step/memory.max allows 400, of which 0 are left");
}

TEST_CASE("host_memory: version 1, and a container that sees its group as the root") {
  const Root root;
  root.write("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:hugetlb,memory:/docker/0123\n");
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "1000\n");
  root.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "100\n");
  root.write("sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 50\n");
  root.check_allowed(950);
  root.check_refused(951, "sys/fs/cgroup/memory/memory.limit_in_bytes allows 1000, of which 950 are left");
  root.write("sys/fs/cgroup/memory/docker/0123/memory.limit_in_bytes", "10\n");
  root.write("sys/fs/cgroup/memory/docker/0123/memory.usage_in_bytes", "9\n");
  root.check_refused(2, "docker/0123/memory.limit_in_bytes allows 10, of which 1 are left");
}

TEST_SUITE_END();
