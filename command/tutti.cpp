// SPDX-License-Identifier: Apache-2.0
// The command `tutti`, which knows nothing of tensors: a subcommand for each thing that is done around a training.
#include <tutti/command/dispatch/other_command.h>
#include <tutti/command/launch/launch_command.h>
#include <tutti/command/launch/launch_error.h>
#include <tutti/command/launch/launcher.h>
#include <tutti/version.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

namespace {

/// Whether the first word is the name of a command, and not of one that this program has in itself.
bool names_other_command(const std::vector<std::string>& words) {
  return !words.empty() && !words.front().empty() && !words.front().starts_with('-') && words.front() != "launch";
}

}  // namespace

int main(int argc, char** argv) {
  using namespace tutti::launch;
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (names_other_command(words)) return tutti::dispatch::become(words.front(), {words.begin() + 1, words.end()});
  // The program to start is not for the parser, which gives some words a meaning wherever they stand.
  const auto dashes = std::ranges::find(words, "--");
  std::vector<std::string> own(words.begin(), dashes);
  LaunchOptions options;
  if (dashes != words.end()) options.program.assign(dashes + 1, words.end());
  CLI::App app("Tools of Tutti, a tensor and data-parallel training library.", "tutti");
  app.set_version_flag("--version", "tutti " TUTTI_VERSION, "Print the version and exit");
  app.require_subcommand(1);
  add_launch_command(app, options);
  for (const auto& other : tutti::dispatch::other_commands()) app.add_subcommand(other.name, other.text);
  try {
    std::ranges::reverse(own);  // the parser takes them from the back
    app.parse(own);
    return launch(options);
  } catch (const CLI::Success& asked) {
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "tutti{}: {}\n", app.got_subcommand("launch") ? " launch" : "", error.what());
    return kBadArguments;
  } catch (const LaunchError& error) {
    fmt::print(stderr, "tutti launch: {}\n", error.what());
    return error.status();
  } catch (const std::exception& error) {
    fmt::print(stderr, "tutti launch: {}\n", error.what());
    return kCannotLaunch;
  }
}
