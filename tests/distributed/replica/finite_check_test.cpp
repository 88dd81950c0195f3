// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/replica/finite_check.h>

#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/two_branches.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace tutti;
using namespace tutti::testing;

namespace {

const double kNaN = std::numeric_limits<double>::quiet_NaN();
const double kInfinity = std::numeric_limits<double>::infinity();

template <class T> Array array_of(std::vector<T> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return Array::from(values, {count}, test_device());
}

std::int64_t non_finite(const Array& array) { return count_non_finite(array, compute_stream(test_device()).record()); }

// grad of left: 1 and x.
Tensor loss_with(const TwoBranches& model, std::size_t device, double x) {
  const Array factor = Array::from(std::vector<double>{1, x}, {2}, test_device(device));
  return sum(model.left * Tensor(factor)) + use(model.right, 1.0);
}

}  // namespace

TEST_CASE("finite_check: counts NaN and both infinities, not the largest and smallest numbers") {
  using Limits = std::numeric_limits<double>;
  CHECK(non_finite(array_of<double>({kNaN, 1.0, -kInfinity, kInfinity, -kNaN})) == 4);
  CHECK(non_finite(array_of<double>({Limits::max(), Limits::lowest(), Limits::denorm_min(), 0.0, -0.0})) == 0);
  CHECK(non_finite(array_of<float>({std::nanf(""), 1.0F, -std::numeric_limits<float>::infinity()})) == 2);
  CHECK(non_finite(array_of<float>({std::numeric_limits<float>::max(), -1.0F})) == 0);
  CHECK(non_finite(array_of<std::int64_t>({-1, 9218868437227405312})) == 0);
  CHECK(count_non_finite(Array{}, Event{}) == 0);
}

TEST_CASE("finite_check: counts more than a block, and views by what they show") {
  std::vector<float> values(10'001, 1.0F);
  for (const std::size_t i : {0, 4095, 4096, 10'000}) values[i] = std::nanf("");
  CHECK(non_finite(array_of(values)) == 4);
  CHECK(non_finite(Array::full({9000}, kNaN, DType::f32, test_device())) == 9000);
  CHECK(non_finite(array_of(values).slice(0, 0, 10'001, 2)) == 3);  // 4095 is odd
  CHECK(non_finite(array_of(values).slice(0, 1, 4095)) == 0);
}

TEST_CASE("finite_check: a device's NaN fails the step on all, naming parameter, device, generation and how many") {
  for (const double bad : {kNaN, kInfinity}) {
    GradientSync sync(test_devices(2), {.check_finite = true});
    auto replicas = sync.replicate(TwoBranches{});
    const auto errors = errors_of_devices(2, [&](std::size_t d) {
      for (int generation = 1; generation <= 3; ++generation) {
        replicas[d].zero_grad();
        auto step = sync.step(test_device(d));
        step.backward(loss_with(replicas[d], d, d == 1 && generation == 3 ? bad : 2.0));
      }
    });
    for (const std::string& error : errors) {
      CAPTURE(error);
      for (const char* part : {"\"left\"", as_tested("cpu:1"), "generation 3", "1 of 2"})
        CHECK(error.find(part) != std::string::npos);
    }
    for (const auto& replica : replicas)
      CHECK_THROWS_WITH_AS(gradient_of(replica.left), doctest::Contains("NaN"), SyncError);
    const SyncReport report = sync.report();
    for (const auto& reduction : report.steps.back().reductions)
      CHECK(sync.report().parameters[reduction.parameter.value] != "left");  // never reduced
  }
}

TEST_CASE("finite_check: local accumulation is scanned as well; what contributes nothing is not") {
  GradientSync sync(test_devices(2), {.check_finite = true});
  auto replicas = sync.replicate(TwoBranches{});
  run_devices(2, [&](std::size_t d) {  // weight 0: zeros, whatever was computed
    auto step = sync.step(test_device(d), d == 0 ? 1.0 : 0.0);
    step.backward(loss_with(replicas[d], d, d == 0 ? 2.0 : kNaN));
    CHECK(gradient_of(replicas[d].left) == Values{1, 2});
    replicas[d].zero_grad();
  });
  const auto errors = errors_of_devices(2, [&](std::size_t d) {
    auto step = sync.step(test_device(d));
    {
      auto local = step.no_sync();
      backward(loss_with(replicas[d], d, d == 0 ? kNaN : 1.0));
    }
    step.synchronize();
  });
  for (const std::string& error : errors) {
    CAPTURE(error);
    CHECK(error.find(as_tested("\"left\" of cpu:0 in generation 2 has 1 of 2")) != std::string::npos);
  }
}

TEST_CASE("finite_check: off, a NaN is reduced like any number") {
  GradientSync sync(test_devices(2), {.reduction = GradientReduction::mean});
  auto replicas = sync.replicate(TwoBranches{});
  run_devices(2, [&](std::size_t d) {
    auto step = sync.step(test_device(d));
    step.backward(loss_with(replicas[d], d, d == 0 ? kNaN : 1.0));
    CHECK(std::isnan(gradient_of(replicas[d].left)[1]));
    CHECK(gradient_of(replicas[d].left)[0] == 1.0);
  });
}
