// SPDX-License-Identifier: Apache-2.0
// The command `tutti`, which knows nothing of tensors: a subcommand for each thing that is done around a training.
#include <tutti/command/launch/launch_command.h>
#include <tutti/command/launch/launch_error.h>
#include <tutti/command/launch/launcher.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  using namespace tutti::launch;
  const std::vector<std::string> words(argv + 1, argv + argc);
  // The program to start is not for the parser, which gives some words a meaning wherever they stand.
  const auto dashes = std::ranges::find(words, "--");
  std::vector<std::string> own(words.begin(), dashes);
  LaunchOptions options;
  if (dashes != words.end()) options.program.assign(dashes + 1, words.end());
  CLI::App app("Tools of Tutti, a tensor and data-parallel training library.", "tutti");
  app.set_version_flag("--version", "tutti " TUTTI_VERSION, "Print the version and exit");
  app.require_subcommand(1);
  add_launch_command(app, options);
  try {
    const auto is_first = [&](const CLI::App* command) { return command->check_name(own.front()); };
    if (!own.empty() && !own.front().starts_with('-') && std::ranges::none_of(app.get_subcommands({}), is_first))
      throw CLI::ValidationError(fmt::format("there is no command {}; tutti --help lists them", own.front()));
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
