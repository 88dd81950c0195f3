// SPDX-License-Identifier: Apache-2.0
// Files that keep what each rank writes.
#include <tutti/tests/command/launch_folder.h>
#include <tutti/tests/command/running_program.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti::testing;

namespace {

std::string content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  CHECK_MESSAGE(file.good(), path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> sorted_lines(const std::string& text) {
  std::vector<std::string> lines = lines_of(text);
  std::ranges::sort(lines);
  return lines;
}

std::size_t files_in(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

}  // namespace

TEST_CASE("launch: --logs keeps both outputs of each rank as they came, and the terminal shows the same as ever") {
  const LaunchFolder folder;
  const std::filesystem::path logs = folder.path() / "made" / "logs";
  // Each waits until the launcher has passed on what it wrote before.
  const std::string await = "until [ $(wc -c <" + logs.string() + "/rank-$TUTTI_RANK.log) = ";
  const std::string script = "printf 'out %s\\r\\n\\n' $TUTTI_RANK;" + await + "8 ]; do sleep 0.02; done;" +
                             "printf 'err\\0\\377\\n' >&2;" + await + "14 ]; do sleep 0.02; done; printf half";
  RunningProgram launcher(launch_script({"-n", "2", "--logs", logs}, script));
  CHECK(launcher.end() == 0);
  RunningProgram without(
      launch_script({"-n", "2"}, "printf 'out %s\\r\\n\\n' $TUTTI_RANK; printf 'err\\0\\377\\n' >&2; printf half"));
  CHECK(without.end() == 0);
  for (const std::string rank : {"0", "1"})
    CHECK(content(logs / ("rank-" + rank + ".log")) ==
          "out " + rank + "\r\n\n" + std::string("err\0\xff\n", 6) + "half");
  CHECK(sorted_lines(launcher.output) == sorted_lines(without.output));
  CHECK(sorted_lines(launcher.error) == sorted_lines(without.error));
  CHECK(files_in(logs) == 2);
}

TEST_CASE("launch: --logs keeps lines of any length, also of a rank that fails and of what it leaves behind") {
  const LaunchFolder folder;
  const std::string file = folder.path() / "rank-0.log";
  RunningProgram launcher(launch_script({"-n", "2", "--no-prefix", "--logs", folder.path()},
                                        "if [ $TUTTI_RANK = 1 ]; then until grep -q later " + file +
                                            "; do sleep 0.05; done; exit; fi;"
                                            "head -c 300000 /dev/zero | tr '\\0' x; (sleep 0.3; echo later) & exit 3"));
  CHECK(launcher.end() == 3);
  const std::string kept = content(file);
  CHECK(kept.size() == 300'000 + 6);
  CHECK(kept.find_first_not_of('x') == 300'000);
  CHECK(kept.ends_with("later\n"));
  CHECK(contains(launcher.error, "ended with status 3"));
}

TEST_CASE("launch: --logs begins files of its ranks anew, leaves others, and numbers ranks in the whole job") {
  const LaunchFolder folder;
  const std::filesystem::path logs = folder.path() / "logs";
  RunningProgram first(launch_script({"-n", "3", "--logs", logs}, "echo the first of two runs"));
  CHECK(first.end() == 0);
  RunningProgram second(launch_script({"-n", "2", "--logs", logs.string() + "/"}, "echo second"));
  CHECK(second.end() == 0);
  CHECK(content(logs / "rank-0.log") == "second\n");
  CHECK(content(logs / "rank-1.log") == "second\n");
  CHECK(content(logs / "rank-2.log") == "the first of two runs\n");
  const std::string secret = folder.path() / "job.secret";
  std::ofstream(secret) << "hush";
  std::filesystem::permissions(secret, std::filesystem::perms(0600));
  RunningProgram host(launch_script({"-n", "2", "--hosts", "3", "--host", "1", "--rendezvous", "[::1]:29400",
                                     "--secret-file", secret, "--logs", logs},
                                    "echo $TUTTI_RANK"));
  CHECK(host.end() == 0);
  CHECK(content(logs / "rank-0.log") == "second\n");
  CHECK(content(logs / "rank-2.log") == "2\n");
  CHECK(content(logs / "rank-3.log") == "3\n");
  CHECK(files_in(logs) == 4);
}

TEST_CASE("launch: a folder or file of --logs that cannot be made is named before any process starts") {
  const LaunchFolder folder;
  const std::string file = folder.path() / "file";
  const std::string started = folder.path() / "started";
  std::ofstream(file) << "kept";
  const auto refused = [&](const std::string& logs, const std::string& problem) {
    RunningProgram launcher(launch_script({"-n", "2", "--logs", logs}, "touch " + started));
    CHECK(launcher.end() == 1);
    CHECK(launcher.output.empty());
    CHECK(launcher.error == "tutti launch: cannot " + problem + "\n");
  };
  refused(file, "make the folder " + file + ": Not a directory");
  refused(file + "/logs", "make the folder " + file + "/logs: Not a directory");
  const std::filesystem::path logs = folder.path() / "logs";
  std::filesystem::create_directories(logs / "rank-1.log");
  refused(logs, "write " + (logs / "rank-1.log").string() + ": Is a directory");
  CHECK(content(file) == "kept");
  CHECK(!std::filesystem::exists(started));
  CHECK(files_in(folder.path()) == 2);  // no secret is left
}

TEST_CASE("launch: a full disk under --logs is told once, and neither ends nor delays the job") {
  const LaunchFolder folder;
  const std::string full = folder.path() / "rank-1.log";
  std::filesystem::create_symlink("/dev/full", full);
  RunningProgram launcher(launch_script({"-n", "2", "--logs", folder.path()},
                                        "i=0; while [ $i -lt 2000 ]; do echo line; echo error >&2; i=$((i+1)); done"));
  CHECK(launcher.end() == 0);
  CHECK(count_of(launcher.output, "line\n") == 4000);
  CHECK(count_of(launcher.error, "error\n") == 4000);
  const std::string told = "tutti launch: cannot write " + full + " any further: No space left on device; the job";
  CHECK(count_of(launcher.error, told) == 1);
  CHECK(count_of(launcher.error, "tutti launch") == 1);
  CHECK(content(folder.path() / "rank-0.log").size() == 2000 * 11);
}

TEST_CASE("launch: files of --logs that may not grow end there, and programs get their signal as before") {
  const LaunchFolder folder;
  // The shell's limit counts 512 or 1024 bytes.
  auto words = launch_script({"-n", "2", "--logs", folder.path()},
                             "grep ^SigIgn /proc/self/status; head -c 200000 /dev/zero | tr '\\0' x; echo; echo end");
  words.insert(words.begin(), {"/bin/sh", "-c", "ulimit -f 64; exec \"$@\"", "sh"});
  RunningProgram launcher(words);
  CHECK(launcher.end() == 0);
  for (const std::string rank : {"0", "1"}) {
    const std::string path = folder.path() / ("rank-" + rank + ".log");
    CHECK(contains(launcher.output, "[" + rank + "] end\n"));
    CHECK(contains(launcher.output, "[" + rank + "] SigIgn:\t0000000000000000\n"));
    CHECK(count_of(launcher.error, "cannot write " + path + " any further: File too large") == 1);
    const auto size = std::filesystem::file_size(path);
    CHECK((size == 64 * 512 || size == 64 * 1024));
  }
  CHECK(count_of(launcher.error, "tutti launch") == 2);
}

TEST_SUITE_END();
