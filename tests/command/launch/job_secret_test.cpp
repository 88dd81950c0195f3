// SPDX-License-Identifier: Apache-2.0
#include <tutti/command/launch/job_secret.h>
#include <tutti/command/launch/launch_error.h>

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti::launch;

namespace {

mode_t mode_of(const std::filesystem::path& path) {
  struct stat status {};
  REQUIRE(lstat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

void refused(const std::filesystem::path& path, const std::string& text) {
  CHECK_THROWS_WITH_AS((void)checked_secret_file(path), doctest::Contains(text.c_str()), LaunchError);
}

}  // namespace

TEST_CASE("job_secret: 32 random bytes that only this user can read, gone with their owner") {
  std::filesystem::path path;
  std::string first;
  {
    const JobSecret secret;
    path = secret.file();
    CHECK(path.is_absolute());
    CHECK(mode_of(path) == 0600);
    CHECK(mode_of(path.parent_path()) == 0700);
    std::ifstream file(path);
    first.assign(std::istreambuf_iterator<char>(file), {});
    CHECK(first.size() == 64);
    CHECK(first.find_first_not_of("0123456789abcdef") == std::string::npos);
    CHECK(checked_secret_file(path) == path);
  }
  CHECK(!std::filesystem::exists(path.parent_path()));
  CHECK(random_hex(32).size() == 64);
  CHECK(random_hex(32) != first);
}

TEST_CASE("job_secret: a file of the user's is refused if it is none, or not the user's alone") {
  const JobSecret folder;  // a private folder for what follows
  const std::filesystem::path path = folder.file().parent_path() / "mine";
  refused(path, "mine: No such file or directory");
  { std::ofstream file(path); }
  std::filesystem::permissions(path, std::filesystem::perms(0600));
  refused(path, "mine is empty");
  std::ofstream(path) << "secret";
  for (const unsigned mode : {0640U, 0604U, 0620U, 0602U, 0610U}) {
    std::filesystem::permissions(path, std::filesystem::perms(mode));
    refused(path, "others may use it; chmod 600 it");
  }
  std::filesystem::permissions(path, std::filesystem::perms(0400));
  CHECK(checked_secret_file(path) == path);
  refused(path.parent_path(), "is no regular file");
  const std::filesystem::path pipe = path.parent_path() / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  refused(pipe, "is no regular file");
  if (geteuid() == 0) {  // others cannot give files away
    REQUIRE(chown(path.c_str(), 12345, getegid()) == 0);
    refused(path, "belongs to user 12345, and this is user 0");
  }
}

TEST_SUITE_END();
