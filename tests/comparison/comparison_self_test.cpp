// SPDX-License-Identifier: Apache-2.0
// The comparison of devices can fail: each kernel in turn gives a wrong element, and is found.
#include <tutti/testing/device_comparison.h>
#include <tutti/tests/comparison/perturbed_backend.h>

#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

using namespace tutti;
using namespace tutti::testing;

TEST_SUITE_BEGIN("cpu");

namespace {

struct Perturbed {
  PerturbedBackend& backend;
  Device device;
};

/// Registered once: kinds stay for the life of the process.
Perturbed perturbed() {
  static auto* backend = new PerturbedBackend;
  static const DeviceKind kind = register_backend("perturbed", std::unique_ptr<Backend>(backend));
  return {*backend, {kind, 0}};
}

DeviceComparison compared(void (*compare)(DeviceComparison&), const std::string& wrong) {
  const Perturbed device = perturbed();
  device.backend.perturbed = wrong;
  device.backend.ran.clear();
  DeviceComparison both(cpu(), device.device);
  const bool from_lists = compare == compare_elementwise || compare == compare_gradient_formulas;
  if (from_lists) both.set_only(wrong.substr(0, wrong.find('\'')));  // all of them once for each would take minutes
  compare(both);
  return both;
}

}  // namespace

TEST_CASE("comparison: finds each kernel whose last element is wrong, and runs every kernel there is") {
  std::set<std::string> found;
  const auto search = [&found](void (*compare)(DeviceComparison&)) {
    const DeviceComparison right = compared(compare, "");
    for (const std::string& difference : right.differences()) FAIL_CHECK(difference);
    for (const std::string& kernel : std::set<std::string>(perturbed().backend.ran)) {
      if (found.contains(kernel)) continue;
      if (!compared(compare, kernel).differences().empty()) found.insert(kernel);
    }
  };
  for (const auto compare :
       {compare_optimizers, compare_sequences, compare_autodiff, compare_movement, compare_structured,
        compare_linear_algebra, compare_reductions, compare_gradient_formulas, compare_elementwise})
    search(compare);
  perturbed().backend.fuses = false;  // beside a device that does
  search(compare_sequences);
  perturbed().backend.fuses = true;
  for (const std::string& kernel : PerturbedBackend::all_kernels())
    CHECK_MESSAGE(found.contains(kernel), kernel, " was wrong, and nothing found it");
  for (const std::string& kernel : found)
    CHECK_MESSAGE(PerturbedBackend::all_kernels().contains(kernel), kernel, " ran, and is not listed");
}

TEST_CASE("comparison: sizes of trainings find a wrong element in short types too") {
  CHECK(compared(compare_training_sizes, "").differences().empty());
  for (const char* kernel : {"softmax 0", "normalize_rows_sums", "gather"}) {
    REQUIRE(PerturbedBackend::all_kernels().contains(kernel));
    const DeviceComparison both = compared(compare_training_sizes, kernel);
    for (const char* type : {" f32 ", " bf16 ", " f16 "})
      CHECK_MESSAGE(std::ranges::any_of(both.differences(),
                                        [&](const auto& text) { return text.find(type) != std::string::npos; }),
                    kernel, type);
  }
}

TEST_CASE("comparison: NaN is not a number, nor is one infinity the other") {
  DeviceComparison both(cpu(0), cpu(1));
  const Array x = Array::from(std::vector<float>{1, std::numeric_limits<float>::infinity()}, {2}, cpu());
  const auto compare = [&](std::vector<float> first, std::vector<float> second, Match match) {
    both.compare(
        "values", {x},
        [&](const Arrays& in) {
          return Arrays{Array::from(in[0].device() == cpu(0) ? first : second, {2}, in[0].device())};
        },
        match);
    return both.differences().size();
  };
  const float nan = std::nanf("");
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(compare({nan, infinity}, {-nan, infinity}, Match::each) == 0);
  CHECK(compare({nan, 1}, {0, 1}, Match::each) == 1);
  CHECK(compare({infinity, 1}, {-infinity, 1}, Match::each) == 2);
  CHECK(compare({infinity, 1}, {3e38F, 1}, Match::largest) == 3);
  CHECK(compare({1, 1e6F}, {1.1F, 1e6F}, Match::each) == 4);
  CHECK(compare({1, 1e6F}, {1.1F, 1e6F}, Match::largest) == 4);
  CHECK(compare({1, 1}, {1.000005F, 1}, Match::each) == 4);
  CHECK(compare({1, 1}, {1.00002F, 1}, Match::each) == 5);
  CHECK(compare({0.0F, 1}, {-0.0F, 1}, Match::each) == 5);
  CHECK(compare({0.0F, 1}, {-0.0F, 1}, Match::bitwise) == 6);
  CHECK(compare({nan, 1}, {std::nanf("1"), 1}, Match::bitwise) == 6);
  CHECK(compare({nan, 1}, {1, 1}, Match::bitwise) == 7);
}

TEST_CASE("comparison: an operation that throws on one device is a difference, named with its operands") {
  DeviceComparison both(cpu(0), cpu(1));
  both.compare("burning", {numbers({2, 3}, DType::f32, Numbers::plain, 1)}, [](const Arrays& in) {
    if (in[0].device() == cpu(1)) raise("too hot");
    return Arrays{};
  });
  REQUIRE(both.differences().size() == 1);
  CHECK(both.differences()[0] == "burning of f32 [2, 3], contiguous: cpu:0 and cpu:1: the second threw: too hot");
}

TEST_SUITE_END();
