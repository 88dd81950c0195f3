// SPDX-License-Identifier: Apache-2.0
// Every operation on cpu:0 and on a device of this run's kind, with the same inputs.
#include <tutti/testing/device_comparison.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

using namespace tutti;
using namespace tutti::testing;

namespace {

void check_alike(void (*compare)(DeviceComparison&)) {
  DeviceComparison both(cpu(), test_device(tests_run_on_cpu() ? 1 : 0));
  compare(both);
  CHECK(both.comparisons() > 0);
  for (const std::string& error : both.refused())  // there is no largest element of none
    CHECK_MESSAGE(error.find("nothing to choose from") != std::string::npos, error);
  constexpr std::size_t kShown = 40;
  for (std::size_t i = 0; i < both.differences().size() && i < kShown; ++i) MESSAGE(both.differences()[i]);
  CHECK(both.differences().size() == 0);
}

}  // namespace

TEST_CASE("comparison: elementwise operations") { check_alike(compare_elementwise); }
TEST_CASE("comparison: gradients of elementwise operations") { check_alike(compare_gradient_formulas); }
TEST_CASE("comparison: copies, casts, fills, selection and random numbers") { check_alike(compare_movement); }
TEST_CASE("comparison: reductions and softmax") { check_alike(compare_reductions); }
TEST_CASE("comparison: matrix products, convolutions, pooling, gather and scatter_add") {
  check_alike(compare_structured);
}
TEST_CASE("comparison: factorizations of matrices and systems") { check_alike(compare_linear_algebra); }
TEST_CASE("comparison: optimizer steps") { check_alike(compare_optimizers); }
TEST_CASE("comparison: differentiable operations and whole training steps") { check_alike(compare_autodiff); }
TEST_CASE("comparison: reductions of many rows") { check_alike(compare_many_rows); }
TEST_CASE("comparison: sizes of trainings, short types, autocast") { check_alike(compare_training_sizes); }
