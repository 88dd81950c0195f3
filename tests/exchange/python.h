// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace tutti::testing {

/// Whether the tests' Python can import `module`: to skip by name what compares with its libraries. The interpreter is
/// $TUTTI_PYTHON, else the one of build/python (tools/setup.sh), else python3.
bool python_has(const std::string& module);

/// Runs a script with arguments and returns what it wrote. An error in it fails the test case and shows the traceback.
std::string run_python(const std::string& script, const std::vector<std::string>& arguments = {});

}  // namespace tutti::testing
