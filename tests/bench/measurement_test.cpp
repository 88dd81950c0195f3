// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/error.h>
#include <tutti/backend/processor_limits.h>
#include <tutti/bench.h>
#include <tutti/tests/error_text.h>

#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;

namespace {

/// Work that takes a time in proportion.
void spin(int rounds) {
  unsigned value = 1;
  for (int i = 0; i < rounds; ++i) {
    value = value * 1664525U + 1013904223U;
    bench::keep(value);
  }
}

}  // namespace

TEST_CASE("bench: samples of a case and of its baseline are taken in turn") {
  std::vector<char> order;
  const auto note = [&order](char who) {
    if (order.empty() || order.back() != who) order.push_back(who);
    spin(100);
  };
  const bench::Case each{.name = "turns", .run = [&] { note('a'); }, .baseline = [&] { note('b'); }};
  const bench::Measurement measured = bench::measure(each, {.repetitions = 4, .seconds = 1e-5});
  CHECK(measured.name == "turns");
  CHECK(measured.samples.size() == 4);
  CHECK(measured.baseline.size() == 4);
  CHECK(measured.ratios.size() == 4);
  CHECK(measured.calls >= 1);
  // Warm calls of each and the counted ones, then each first every other time: ab ba ab ba.
  CHECK(std::string(order.begin(), order.end()) == "abababa");
}

TEST_CASE("bench: a ratio tells twenty times the work, by either clock") {
  const bench::Case each{.name = "spin", .run = [] { spin(40000); }, .baseline = [] { spin(2000); }};
  for (const bool processor_time : {false, true}) {
    const auto measured = bench::measure(each, {.repetitions = 5, .seconds = 1e-3, .processor_time = processor_time});
    REQUIRE(measured.ratio());
    CHECK(*measured.ratio() > 4.0);
    CHECK(measured.seconds() > 0.0);
    CHECK(measured.spread() >= 0.0);
  }
}

TEST_CASE("bench: without a baseline there is no ratio, and without counted allocations no number of them") {
  const auto measured = bench::measure({.name = "alone", .run = [] { spin(10); }}, {.repetitions = 1, .seconds = 1e-5});
  CHECK(!measured.ratio());
  CHECK(measured.baseline_calls == 0);
  CHECK(!measured.heap_allocations);
  CHECK(measured.array_allocations == 0);
  CHECK(measured.spread() == 0.0);
}

TEST_CASE("bench: what means nothing is refused") {
  const auto nothing = [] {};
  CHECK(testing::error_of([&] { bench::measure({.name = "a", .run = {}}); }).find("a has nothing to run") !=
        std::string::npos);
  CHECK(testing::error_of([&] {
          bench::measure({.name = "a", .run = nothing}, {.repetitions = 0});
        }).find("fewer than one repetition") != std::string::npos);
  CHECK(testing::error_of([&] { bench::measure({.name = "a", .run = nothing}, {.seconds = 0.0}); }).find("above 0 s") !=
        std::string::npos);
  bench::Suite suite;
  suite.add({.name = "a", .run = nothing});
  CHECK(testing::error_of([&] { suite.add({.name = "a", .run = nothing}); }).find("two cases named a") !=
        std::string::npos);
  CHECK(testing::error_of([&] { suite.add({.name = "", .run = nothing}); }).find("without a name") !=
        std::string::npos);
  CHECK(testing::error_of([&] { suite.add({.name = "b", .run = {}}); }).find("b has nothing to run") !=
        std::string::npos);
  CHECK_THROWS_AS(bench::measure({.name = "a", .run = [] { throw std::runtime_error("mine"); }}), std::runtime_error);
}

TEST_CASE("bench: limits are those of the nearest size") {
  const ProcessorLimits limits{.flops = 1e9, .copies = {{1 << 15, 80e9}, {1 << 21, 40e9}, {1 << 28, 10e9}}};
  CHECK(limits.copy_rate(0) == 80e9);
  CHECK(limits.copy_rate(1 << 17) == 80e9);
  CHECK(limits.copy_rate(1 << 19) == 40e9);
  CHECK(limits.copy_rate(1e12) == 10e9);
  CHECK(ProcessorLimits{}.copy_rate(1024) == 0.0);
}

TEST_CASE("bench: this processor's limits are measured") {
  const ProcessorLimits limits = measure_processor_limits();
  CHECK(limits.flops > 1e8);
  CHECK(limits.bf16_flops > 1e8);
  CHECK(std::isfinite(limits.bf16_flops));
  if (limits.bf16_products == "widened to f32") CHECK(limits.bf16_flops == limits.flops);
  REQUIRE(limits.copies.size() == 5);
  for (std::size_t i = 0; i < limits.copies.size(); ++i) {
    CHECK(limits.copies[i].bytes_per_second > 1e7);
    if (i > 0) CHECK(limits.copies[i].bytes > limits.copies[i - 1].bytes);
  }
}
