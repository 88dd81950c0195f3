// SPDX-License-Identifier: Apache-2.0
// The lists of docs/dtypes.md, "Autocast": what the code has, and what the operations do.
#include <doctest/doctest.h>
#include <tutti/autodiff/autocast.h>
#include <tutti/autodiff/operations.h>
#include <tutti/tests/references/operations.h>
#include <tutti/tests/test_devices.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string_view>

using namespace tutti;
using namespace tutti::testing;

namespace {

using Names = std::set<std::string>;

/// What stands between two of these marks in a file's part from `begin` to `end`.
Names marked(const char* path, std::string_view begin, std::string_view end, char mark) {
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t first = text.find(begin);
  REQUIRE_MESSAGE(first != std::string::npos, begin, " is not in ", path);
  std::istringstream parts(text.substr(first, text.find(end, first) - first));
  Names names;
  std::string part;
  for (bool inside = false; std::getline(parts, part, mark); inside = !inside)
    if (inside) names.insert(part);
  REQUIRE(!names.empty());
  return names;
}

Names documented(std::string_view row) { return marked("docs/dtypes.md", row, "\n", '`'); }
Names narrow_names() { return documented("| narrow: "); }
Names wide_names() { return documented("| f32: "); }

Names declared_names(const Operation& operation) {
  std::istringstream words(operation.declared);
  return {std::istream_iterator<std::string>(words), {}};
}

bool has_any(const Names& names, const Names& wanted) {
  return std::ranges::any_of(wanted, [&](const std::string& name) { return names.count(name) > 0; });
}

/// The first has its type as an argument; the others are made of many operations.
const Names kOfTheirOwn{"cast", "rnn", "lstm", "gru"};

/// The dtype of the first result where all floating inputs are of one type, in a scope of bf16.
DType result_dtype(const Operation& operation, const ReferenceCase& reference, DType dtype) {
  Call call{{}, reference.attributes};
  for (const Array& input : reference.inputs)
    call.x.emplace_back((is_floating(input.dtype()) ? input.cast(dtype) : input).to(test_device()));
  const Autocast guard(DType::bf16);
  return operation.run(call).front().dtype();
}

}  // namespace

TEST_CASE("autocast: the documented lists are those of the code") {
  CHECK(narrow_names() == marked("autodiff/engine/autocast.cpp", "kNarrow[] = {", "};", '"'));
  CHECK(wide_names() == marked("autodiff/engine/autocast.cpp", "kWide[] = {", "};", '"'));
}

TEST_CASE("autocast: every operation computes as its list says") {
  const Names narrow = narrow_names();
  const Names wide = wide_names();
  std::map<std::string, ReferenceCase> cases;
  for (const std::string& file : reference_files())
    for (ReferenceCase& reference : reference_cases(file))
      if (!reference.gradients.empty())  // else of integers or bools
        cases.emplace(reference.operation, std::move(reference));
  for (const Operation& operation : all_operations()) {
    const auto found = cases.find(operation.name);
    if (found == cases.end() || kOfTheirOwn.count(operation.name) > 0) continue;
    CAPTURE(operation.name);
    const Names names = declared_names(operation);
    CHECK(result_dtype(operation, found->second, DType::f32) == (has_any(narrow, names) ? DType::bf16 : DType::f32));
    CHECK(result_dtype(operation, found->second, DType::bf16) == (has_any(wide, names) ? DType::f32 : DType::bf16));
  }
}
