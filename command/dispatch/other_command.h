// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

namespace tutti::dispatch {

/// A subcommand that is a program of its own: `tutti info` is `tutti-info`, which is linked with the library, so that
/// `tutti` need not be.
struct OtherCommand {
  const char* name;
  const char* text;  ///< line of the help
};

/// Those that the library comes with. Others are found in the same way, whoever has installed them.
std::span<const OtherCommand> other_commands();

/// Places where the program `tutti-NAME` may lie, in the order in which they are looked at: beside this program, in the
/// build's folder for it, where it is installed, and in absolute folders of PATH.
struct Places {
  std::vector<std::string> own;
  std::vector<std::string> in_path;
};
Places places_of(const std::string& name);

/// Becomes the program `tutti-NAME`, with these arguments. Returns only where there is none, or it cannot be started:
/// with the exit status, after a line on standard error that says where it was looked for.
int become(const std::string& name, const std::vector<std::string>& arguments);

}  // namespace tutti::dispatch
