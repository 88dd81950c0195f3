// SPDX-License-Identifier: Apache-2.0
// The lists of docs/dtypes.md, "Autocast": what the code has, and what the operations do.
#include <doctest/doctest.h>
#include <tutti/autodiff/autocast.h>
#include <tutti/autodiff/operations.h>
#include <tutti/tests/references/operations.h>
#include <tutti/tests/test_devices.h>

#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string_view>

using namespace tutti;
using namespace tutti::testing;

namespace {

using Names = std::set<std::string>;

/// What stands in `` in the row of the page's table that begins so.
Names documented(std::string_view row) {
  std::ifstream page("docs/dtypes.md");
  Names names;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with(row)) continue;
    std::istringstream parts(line);
    std::string part;
    for (bool quoted = false; std::getline(parts, part, '`'); quoted = !quoted)
      if (quoted) names.insert(part);
  }
  REQUIRE(!names.empty());
  return names;
}

Names narrow_names() { return documented("| narrow: "); }
Names wide_names() { return documented("| f32: "); }

Names declared_names(const Operation& operation) {
  std::istringstream words(operation.declared);
  return {std::istream_iterator<std::string>(words), {}};
}

bool has_any(const Names& names, const Names& wanted) {
  return std::ranges::any_of(wanted, [&](const std::string& name) { return names.count(name) > 0; });
}

Tensor zeros(DType dtype) { return Tensor(Array::zeros({1}, dtype, test_device())); }

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
  const Names narrow = narrow_names();
  const Names wide = wide_names();
  Names all = narrow;
  all.insert(wide.begin(), wide.end());
  for (const Operation& operation : all_operations()) {
    all.insert(operation.name);
    all.merge(declared_names(operation));
  }
  const Autocast guard(DType::bf16);
  for (const std::string& name : all) {
    CAPTURE(name);
    CHECK((autocast(name, zeros(DType::f32)).dtype() == DType::bf16) == (narrow.count(name) > 0));
    CHECK((autocast(name, zeros(DType::bf16)).dtype() == DType::f32) == (wide.count(name) > 0));
  }
}

TEST_CASE("autocast: every operation computes as its list says") {
  const Names narrow = narrow_names();
  const Names wide = wide_names();
  std::map<std::string, ReferenceCase> cases;
  for (const std::string& file : reference_files())
    for (ReferenceCase& reference : reference_cases(file))
      if (!reference.gradients.empty()) cases.emplace(reference.operation, std::move(reference));
  for (const Operation& operation : all_operations()) {
    const auto found = cases.find(operation.name);
    if (found == cases.end() || kOfTheirOwn.count(operation.name) > 0) continue;  // else of integers and bools
    CAPTURE(operation.name);
    const Names names = declared_names(operation);
    CHECK(result_dtype(operation, found->second, DType::f32) == (has_any(narrow, names) ? DType::bf16 : DType::f32));
    CHECK(result_dtype(operation, found->second, DType::bf16) == (has_any(wide, names) ? DType::f32 : DType::bf16));
  }
}
