// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace tutti::testing {

/// What came of ONNX's own test cases.
struct CaseResults {
  int passed = 0;
  int replayed = 0;                       ///< of these, by CapturedForward, with the same bits
  std::map<std::string, int> uncaptured;  ///< how many of these were not, by why
  std::map<std::string, int> refused;     ///< how many, by what is not done
  std::vector<std::string> wrong;         ///< a line each
};

/// Runs all cases of a folder that tools/onnx/node_cases.py has written. ONNX's tolerances: 1e-3 of each element, and
/// for 16 bits two units in the last place.
CaseResults run_node_cases(const std::filesystem::path& folder);

}  // namespace tutti::testing
