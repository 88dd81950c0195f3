// SPDX-License-Identifier: Apache-2.0
// ONNX's own cases of single operators, and of those that are made of others, go through the importer.
#include <tutti/tests/exchange/python.h>
#include <tutti/tests/exchange/temporary_folder.h>
#include <tutti/tests/onnx/node_cases.h>

#include <fmt/format.h>

#include <cstdio>
#include <string>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti::testing;

TEST_CASE("onnx: its own test cases, of every operator" * doctest::skip(!python_has("onnx"))) {
  // Of onnx 1.23.2, as tools/setup.sh installs it: 1,832 cases without sequences, optionals and strings. The others are
  // refused: operators and types of numbers that are not here (docs/onnx.md).
  constexpr int kCases = 1832;
  constexpr int kPassed = 1188;
  const TemporaryFolder folder;
  run_python(read_file("tools/onnx/node_cases.py"), {folder.file("cases")});
  const CaseResults results = run_node_cases(folder.file("cases"));
  for (const std::string& wrong : results.wrong) FAIL_CHECK(wrong);
  int refused = 0;
  for (const auto& [subject, count] : results.refused) refused += count;
  CHECK(results.passed == kPassed);
  CHECK(results.passed + refused == kCases);
  // The others read on the host what cases give as inputs: shapes, axes, bounds; or make values of shapes.
  constexpr int kReplayed = 744;
  std::string why;
  for (const auto& [error, count] : results.uncaptured) why += fmt::format("{} x {}\n", count, error);
  CAPTURE(why);
  CHECK(results.replayed == kReplayed);
}
