// SPDX-License-Identifier: Apache-2.0
// Every operation with integers at the ends of their range among its arguments: it gives a result of the right shape or
// refuses them with an error that names it. One that takes integers and has no call here is noticed.
#include <doctest/doctest.h>
#include <tutti/backend/random.h>
#include <tutti/tests/references/declarations.h>
#include <tutti/tests/references/varied_call.h>

#include <sys/resource.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <sstream>

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t power(int exponent) { return std::int64_t{1} << exponent; }
constexpr std::int64_t kExtremes[] = {
    kLeast,    kLeast + 1,    -power(62), -power(32), -power(31),    -2,        -1,        0,    1, 2,
    power(31), power(31) - 1, power(32),  power(40),  power(62) - 1, power(62), kMost - 1, kMost};

// Declared functions with integers that are no operations: parts of them, of modules and of graphs, and initialisers.
constexpr const char* kNoOperations =
    "record_binary gather_lines gather_places scatter_places scatter_add_places places_of take_view put_view "
    "take_array time_steps append_steps call_hooked orthogonal with_kept_axes lines_of "
    "initialize_layer kaiming_normal kaiming_uniform xavier_normal xavier_uniform fill_constant fill_normal "
    "fill_truncated_normal fill_uniform identity_convolution tensor zero_gradient";

/// What an argument with an integer that a size, an axis or a place is made of is declared as.
constexpr const char* kWithIntegers[] = {"std::int64_t",   "Shape&",       "Axes&",        "Geometry&",
                                         "Padding>",       "FourierAxis&", "FourierAxes&", "InterpolateOptions&",
                                         "AttentionCall&", "RotaryCall&",  "Index>",       "CrossEntropyOptions&",
                                         "NllOptions&",    "CtcOptions&",  "CtcLengths&"};

std::int64_t peak_memory() {  // KiB
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

}  // namespace

TEST_SUITE_BEGIN("cpu");

TEST_CASE("references: extreme integers give a right shape or an error that names the operation") {
  const std::int64_t before = peak_memory();
  const SmallMemory limit;
  int calls = 0;
  for (const auto& [operation, cases] : varied_operations())
    for (const ReferenceCase* reference : cases) {
      const VariedCall given(*reference);
      for (std::size_t i = 0; i < given.integers(); ++i)
        for (const std::int64_t extreme : kExtremes) {
          VariedCall varied = given;
          varied.set(i, extreme);
          const std::string complaint = complaint_about(operation, varied.call());
          CHECK_MESSAGE(complaint.empty(), varied.describe(), ": ", complaint);
          ++calls;
        }
    }
  CHECK(calls > 10000);
  CHECK(peak_memory() - before < power(20));  // 1 GiB
}

TEST_CASE("references: several extreme integers at a time") {
  const SmallMemory limit;
  Generator random(26);
  const auto& operations = varied_operations();
  for (int i = 0; i < 20000; ++i) {
    const VariedOperation& chosen = operations[random.below(operations.size())];
    VariedCall varied(*chosen.cases.at(random.below(chosen.cases.size())));
    if (varied.integers() == 0) continue;
    for (std::uint64_t changes = 1 + random.below(4); changes > 0; --changes)
      varied.set(random.below(varied.integers()), kExtremes[random.below(std::size(kExtremes))]);
    const std::string complaint = complaint_about(chosen.operation, varied.call());
    CHECK_MESSAGE(complaint.empty(), varied.describe(), ": ", complaint);
  }
}

TEST_CASE("references: every operation that takes integers is called with extreme ones") {
  std::istringstream others(kNoOperations);
  std::set<std::string> varied{std::istream_iterator<std::string>(others), {}};
  for (const auto& [operation, cases] : varied_operations()) {
    if (std::ranges::none_of(cases, [](const auto* reference) { return VariedCall(*reference).arguments() > 0; }))
      continue;
    std::istringstream names(operation.declared);
    varied.insert(std::istream_iterator<std::string>(names), {});
  }
  const auto takes_integers = [](const std::string& declaration) {
    return std::ranges::any_of(kWithIntegers,
                               [&](const char* type) { return declaration.find(type) != std::string::npos; });
  };
  int found = 0;
  for (const auto& [name, declaration] : declared_functions()) {
    if (!takes_integers(declaration)) continue;
    ++found;
    CHECK_MESSAGE(varied.contains(name), name, " takes integers, and none of its references has one: ", declaration);
  }
  CHECK(found > 80);
}

TEST_SUITE_END();
