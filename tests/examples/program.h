// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

namespace tutti::testing {

/// A program as its user meets it.
struct Outcome {
  int code = -1;
  std::string output;  // standard output and error
};

inline Outcome run_program(const std::string& command) {
  std::FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  Outcome outcome;
  std::array<char, 4096> block{};
  for (std::size_t n = 0; (n = std::fread(block.data(), 1, block.size(), pipe)) > 0;)
    outcome.output.append(block.data(), n);
  const int status = pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

/// One line that names the problem, and a code that is not 0.
inline void check_refused(const Outcome& outcome, const std::string& problem) {
  CAPTURE(outcome.output);
  CHECK(outcome.code > 0);
  CHECK(std::count(outcome.output.begin(), outcome.output.end(), '\n') == 1);
  CHECK(outcome.output.find(problem) != std::string::npos);
}

/// What follows `label` in the output, as a number.
inline double number_after(const std::string& output, const std::string& label) {
  const auto place = output.find(label);
  CAPTURE(output);
  REQUIRE(place != std::string::npos);
  return std::strtod(output.c_str() + place + label.size(), nullptr);
}

}  // namespace tutti::testing
