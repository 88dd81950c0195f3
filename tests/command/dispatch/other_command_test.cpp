// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/command/launch_folder.h>
#include <tutti/tests/command/running_program.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti::testing;

namespace {

namespace fs = std::filesystem;

/// A copy of the command in a folder of its own, with nothing beside it, and PATH what it is told.
class MovedCommand {
 public:
  MovedCommand() {
    fs::create_directories(folder() / "bin");
    fs::copy_file(TUTTI_COMMAND, folder() / "bin/tutti");
  }
  fs::path folder() const { return folder_.path(); }

  void add_script(const fs::path& place, const std::string& script) const {
    fs::create_directories((folder() / place).parent_path());
    std::ofstream(folder() / place) << "#!/bin/sh\n" << script << "\n";
    fs::permissions(folder() / place, fs::perms::owner_all);
  }
  std::vector<std::string> words(const std::string& path, std::vector<std::string> given) const {
    given.insert(given.begin(), {"/usr/bin/env", "PATH=" + path, (folder() / "bin/tutti").string()});
    return given;
  }

 private:
  LaunchFolder folder_;
};

}  // namespace

TEST_CASE("command: a program that is not beside it is told with the places where it was looked for") {
  const MovedCommand command;
  RunningProgram program(command.words("/nowhere", {"info"}));
  CHECK(program.end() == 127);
  CAPTURE(program.error);
  CHECK(lines_of(program.error).size() == 1);
  CHECK(program.error.starts_with("tutti info: it is a program of its own, tutti-info, which is neither "));
  for (const char* place : {"/bin/tutti-info", "/bin/info/tutti-info", "/libexec/tutti/tutti-info"})
    CHECK_MESSAGE(contains(program.error, command.folder().string() + place), place);
  CHECK(contains(program.error, "PATH"));
}

TEST_CASE("command: any tutti-NAME is a subcommand, with its arguments and its status") {
  const MovedCommand command;
  const auto check = [&](const std::string& path, const std::string& said) {
    RunningProgram program(command.words(path, {"dance", "--steps", "two words", "--", "-n", "3"}));
    CHECK(program.end() == 7);
    CHECK(program.output == said + " --steps|two words|--|-n|3|\n");
    CHECK(program.error.empty());
  };
  const auto script = [](const std::string& who) {
    return "printf '" + who + " '; for word in \"$@\"; do printf '%s|' \"$word\"; done; echo; exit 7";
  };
  command.add_script("elsewhere/tutti-dance", script("path"));
  check("/nowhere::" + (command.folder() / "elsewhere").string(), "path");
  command.add_script("libexec/tutti/tutti-dance", script("libexec"));
  check((command.folder() / "elsewhere").string(), "libexec");
  command.add_script("bin/tutti-dance", script("beside"));
  check((command.folder() / "elsewhere").string(), "beside");
}

TEST_CASE("command: what cannot be started, or is no name, is told") {
  const MovedCommand command;
  command.add_script("bin/tutti-dance", "exit 0");
  fs::permissions(command.folder() / "bin/tutti-dance", fs::perms::owner_read);
  {
    RunningProgram program(command.words("/nowhere", {"dance"}));
    CHECK(program.end() == 126);
    CHECK(contains(program.error, "tutti dance: cannot start "));
    CHECK(contains(program.error, "Permission denied"));
  }
  command.add_script("tutti-up", "exit 0");
  for (const char* name : {"../tutti-up", "x/../../tutti-up", "Dance", "dan ce"}) {
    RunningProgram program(command.words("/nowhere", {name}));
    CHECK(program.end() == 2);
    CHECK(contains(program.error, std::string("tutti: there is no command ") + name + "; tutti --help lists them"));
  }
}

TEST_SUITE_END();
