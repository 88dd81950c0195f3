// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/processes/job_secret.h>

#include <tutti/backend/error.h>

#include <doctest/doctest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;

namespace {

using Variables = std::map<std::string, std::string>;

JobSecret secret_in(const Variables& variables) {
  return JobSecret(EnvironmentReader([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  }));
}

/// A file in a folder of its own, gone with it.
class SecretFile {
 public:
  SecretFile(const std::string& content, mode_t mode) {
    std::string folder = (std::filesystem::temp_directory_path() / "tutti_secret_XXXXXX").string();
    REQUIRE(mkdtemp(folder.data()) != nullptr);
    folder_ = folder;
    std::ofstream(path()) << content;
    REQUIRE(chmod(path().c_str(), mode) == 0);
  }
  SecretFile(const SecretFile&) = delete;
  SecretFile& operator=(const SecretFile&) = delete;
  ~SecretFile() { std::filesystem::remove_all(folder_); }
  std::string path() const { return folder_ + "/secret"; }

 private:
  std::string folder_;
};

const std::string kText = "0123456789abcdef0123456789abcdef";

void refused(const Variables& variables, const std::string& text) {
  CHECK_THROWS_WITH_AS((void)secret_in(variables), doctest::Contains(text.c_str()), Error);
}

}  // namespace

TEST_CASE("job_secret: a file, a variable, or none, in this order") {
  const JobSecret none = secret_in({{"TUTTI_SECRET", ""}});
  CHECK_FALSE(none.given());
  const JobSecret variable = secret_in({{"TUTTI_SECRET", kText}});
  CHECK(variable.given());
  for (const mode_t mode : {0600U, 0400U}) {
    const SecretFile file(kText + "\r\n", mode);
    const JobSecret read = secret_in({{"TUTTI_SECRET_FILE", file.path()}, {"TUTTI_SECRET", "another secret of a job"}});
    CHECK(read.given());
    CHECK(read.keys("job", 1).public_key == variable.keys("job", 1).public_key);
  }
}

TEST_CASE("job_secret: keys follow from secret, job and rank, and from nothing else") {
  const JobSecret secret = secret_in({{"TUTTI_SECRET", kText}});
  const auto key = [](const JobSecret& of, const std::string& job, int rank) { return of.keys(job, rank).public_key; };
  CHECK(key(secret, "job", 1) == key(secret_in({{"TUTTI_SECRET", kText}}), "job", 1));
  CHECK(key(secret, "job", 1) != key(secret, "job", 2));
  CHECK(key(secret, "job", 1) != key(secret, "job2", 1));
  CHECK(key(secret, "1:a", 1) != key(secret, "a", 1));
  CHECK(key(secret, "job", 1) != key(secret_in({{"TUTTI_SECRET", kText + "x"}}), "job", 1));
  CHECK(key(secret, "job", 1) != key(secret_in({}), "job", 1));
  CHECK(secret.token("one", "job", 1) != secret.token("two", "job", 1));
  CHECK(secret.keys("job", 1).secret_key != secret.keys("job", 1).public_key);
}

TEST_CASE("job_secret: what cannot be one is refused, and the text does not show it") {
  refused({{"TUTTI_SECRET", "short"}}, "TUTTI_SECRET: a secret of 5 bytes: it must have 16 or more");
  refused({{"TUTTI_SECRET", std::string(4097, 'x')}}, "longer than 4096 bytes");
  refused({{"TUTTI_SECRET_FILE", "/nowhere/at/all"}}, "/nowhere/at/all cannot be read: No such file");
  refused({{"TUTTI_SECRET_FILE", "/tmp"}}, "/tmp is no regular file");
  const SecretFile open(kText, 0640);
  refused({{"TUTTI_SECRET_FILE", open.path()}}, open.path() + " has mode 0640");
  const SecretFile empty("\n", 0600), large(std::string(5000, 'x'), 0600);
  refused({{"TUTTI_SECRET_FILE", empty.path()}}, "a secret of 0 bytes");
  refused({{"TUTTI_SECRET_FILE", large.path()}}, "longer than 4096 bytes");
  if (geteuid() == 0) {
    const SecretFile foreign(kText, 0600);
    REQUIRE(chown(foreign.path().c_str(), 65534, 65534) == 0);
    refused({{"TUTTI_SECRET_FILE", foreign.path()}}, "is the file of user 65534, this process is user 0");
  }
}

TEST_SUITE_END();
