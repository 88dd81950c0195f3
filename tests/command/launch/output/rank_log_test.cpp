// SPDX-License-Identifier: Apache-2.0
#include <tutti/command/launch/launch_error.h>
#include <tutti/command/launch/output/rank_log.h>
#include <tutti/tests/command/launch_folder.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

using tutti::launch::LaunchError;
using tutti::launch::RankLog;
using tutti::testing::LaunchFolder;

namespace {

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("rank_log: it has the bytes as they come, and nothing of before") {
  const LaunchFolder folder;
  const std::string path = folder.path() / "rank-0.log";
  std::ofstream(path) << "of an earlier run, and longer than what follows\n";
  const std::string bytes("a\0b\r\n\n\xff half", 12);
  RankLog log(path);
  CHECK(content(path).empty());
  log.take(bytes);
  CHECK(content(path) == bytes);
  log.take("");
  log.take(bytes);
  CHECK(content(path) == bytes + bytes);
  log.close();
  log.take(bytes);
  log.close();
  CHECK(content(path) == bytes + bytes);
  CHECK(!log.news());
}

TEST_CASE("rank_log: a full disk is told once, and bytes go on to come") {
  RankLog log("/dev/full");
  CHECK(!log.news());
  log.take("a");
  log.take("b");
  CHECK(log.news() == "cannot write /dev/full any further: No space left on device; the job goes on without it");
  CHECK(!log.news());
  log.take("c");
  log.close();
  CHECK(!log.news());
}

TEST_CASE("rank_log: a file that cannot be made is named") {
  const LaunchFolder folder;
  const auto refused = [](const std::string& path, const std::string& problem) {
    const std::string text = "cannot write " + path + ": " + problem;
    CHECK_THROWS_WITH_AS(RankLog{path}, text.c_str(), LaunchError);
  };
  refused(folder.path() / "none" / "rank-0.log", "No such file or directory");
  refused(folder.path(), "Is a directory");
}

TEST_SUITE_END();
