// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tutti::launch {

struct LaunchOptions;

/// Adds `tutti launch` to a program, with texts for its help. Parsing fills `options`, apart from the program to start,
/// which is what follows "--". Both have to outlive `app`.
void add_launch_command(CLI::App& app, LaunchOptions& options);

}  // namespace tutti::launch
