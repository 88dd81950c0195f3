// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace tutti::testing {

/// A program of a test's own, and what is added to its environment.
struct ProcessCommand {
  std::vector<std::string> arguments;  ///< the first is the program's path
  std::vector<std::pair<std::string, std::string>> environment = {};
};

/// Runs them at the same time. What became of each: "" for one that ended with status 0, else how it ended: "ended with
/// status 3", "was killed by signal 9", "had not ended after 60 s". When one fails, the others, who may wait for it,
/// are killed `grace` later ("was killed: another failed"); all that are left are killed at the deadline.
std::vector<std::string> run_processes(const std::vector<ProcessCommand>&, std::chrono::milliseconds deadline,
                                       std::chrono::milliseconds grace = std::chrono::seconds(5));

}  // namespace tutti::testing
