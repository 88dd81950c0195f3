// SPDX-License-Identifier: Apache-2.0
// The kernels that sum slices of several devices, on the host, against the engine for CPUs: to the bit.
#include <tutti/backend/cuda/kernels/slices.h>

#include <tutti/backend/array.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/collectives/collective_plan.h>
#include <tutti/distributed/collectives/gradient_sums.h>
#include <tutti/distributed/engines/peer/slice_table.h>

#include <tutti/tests/backend/cuda/on_host/device_array.h>

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace tutti {
namespace {

namespace kernels = cuda_kernels;
using on_host::LentArrays;

template <class T> std::vector<T> random_values(std::mt19937& random, std::int64_t count) {
  std::vector<T> values;
  for (std::int64_t i = 0; i < count; ++i)
    if constexpr (is_floating(dtype_of<T>)) {
      using Wide = ComputedIn<T>;
      const int exponent = static_cast<int>(random() % 40) - (sizeof(T) == 2 ? 45 : 20);
      auto value = std::ldexp(static_cast<Wide>(static_cast<std::int32_t>(random())), exponent);
      if (random() % 50 == 0) value = Wide(-0.0);
      if (random() % 50 == 0) value = std::numeric_limits<Wide>::quiet_NaN();
      if (random() % 50 == 0) value = std::numeric_limits<Wide>::infinity();
      if (random() % 50 == 0) value = std::numeric_limits<Wide>::denorm_min() * Wide(random() % 9);
      values.push_back(static_cast<T>(value));
    } else {
      values.push_back(static_cast<T>(random()));
    }
  return values;
}

/// The same random slices twice: for the engine and for the kernels.
template <class T> struct Slices {
  Slices(std::mt19937& random, std::size_t members, std::int64_t size, std::int64_t first) {
    for (std::size_t m = 0; m < members; ++m) {
      const Array whole = Array::from(random_values<T>(random, size + first), {size + first}, cpu(0));
      expected.push_back(whole.slice(0, first, first + size));
      actual.push_back(whole.copy().slice(0, first, first + size));
    }
    synchronize(cpu(0));
  }
  std::vector<Array> expected;
  std::vector<Array> actual;
};

/// Which NaN a sum gives is the compiler's choice: it may add either way round.
template <class T> bool same_bits(const Array& a, const Array& b) {
  const T* x = a.data<T>();
  const T* y = b.data<T>();
  for (std::int64_t i = 0; i < a.size(); ++i)
    if (std::memcmp(x + i, y + i, sizeof(T)) != 0 && (x[i] == x[i] || y[i] == y[i])) return false;
  return true;
}

template <class T> void check_gradient_sums(kernels::SliceWire wire, GradientWire cpu_wire) {
  std::mt19937 random(static_cast<unsigned>(sizeof(T)) + static_cast<unsigned>(wire));
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    const std::size_t members = 1 + random() % 9;
    const auto size = static_cast<std::int64_t>(1 + random() % 1500);
    const Slices<T> slices(random, members, size, round % 3 == 0 ? 1 : 0);  // unaligned, too
    const double denominators[] = {1.0, static_cast<double>(members), 0.25, 7.3};
    AllReduceRequest request{.slices = {}, .ready = {}, .denominator = denominators[round % 4], .wire = cpu_wire};
    if (cpu_wire != GradientWire::native) request.wire_scale = 0.125;
    kernels::SliceTable table;
    std::size_t number = random() % 3;  // of the group's devices: some have no slice
    for (std::size_t m = 0; m < members; ++m, number += 1 + random() % 3) {
      const bool contributes = random() % 4 > 0;
      request.slices.push_back({slices.expected[m], contributes});
      request.numbers.push_back(number);
      if (contributes) add_source("all_reduce", table, slices.actual[m].raw_data(), number);
      add_target("all_reduce", table, slices.actual[m].raw_data());
    }
    check_slices(request);
    ElementSums(request).run(0, size);
    const LentArrays lent({}, slices.actual);
    kernels::launch_combine_slices(
        nullptr, dtype_of<T>, table, size,
        {.denominator = request.denominator, .wire = wire, .wire_scale = request.wire_scale});
    for (std::size_t m = 0; m < members; ++m) CHECK(same_bits<T>(slices.expected[m], slices.actual[m]));
  }
}

template <class T> void check_collectives() {
  std::mt19937 random(7);
  const std::pair<CollectiveOperation, kernels::Combination> operations[] = {
      {CollectiveOperation::sum, kernels::Combination::sum},
      {CollectiveOperation::mean, kernels::Combination::sum},
      {CollectiveOperation::max, kernels::Combination::max},
      {CollectiveOperation::min, kernels::Combination::min}};
  for (const auto& [operation, combination] : operations) {
    if (!std::is_floating_point_v<T> && operation == CollectiveOperation::mean) continue;
    const std::int64_t size = 777;
    const Slices<T> slices(random, 5, size, 0);
    CollectiveRequest request{
        .operation = operation, .inputs = slices.expected, .outputs = {}, .ready = {}, .parts = {}};
    request.outputs.push_back(Array::empty({size}, dtype_of<T>, cpu(0)));
    const CollectivePart part{size, {{0, 0}, {1, 0}, {2, 0}, {3, 0}, {4, 0}}, {{0, 0}}};
    combine(request, part, 0, size);
    const Array output = Array::empty({size}, dtype_of<T>, cpu(0));
    kernels::SliceTable table;
    for (std::size_t m = 0; m < 5; ++m) add_source("collective", table, slices.actual[m].raw_data(), m);
    add_target("collective", table, output.raw_data());
    const LentArrays lent(slices.actual, {output});
    kernels::launch_combine_slices(
        nullptr, dtype_of<T>, table, size,
        {.combination = combination, .denominator = operation == CollectiveOperation::mean ? 5.0 : 1.0});
    CHECK(same_bits<T>(request.outputs[0], output));
  }
}

TEST_CASE("slice kernels: gradients' sums are those of CPU devices") {
  check_gradient_sums<float>(kernels::SliceWire::native, GradientWire::native);
  check_gradient_sums<double>(kernels::SliceWire::native, GradientWire::native);
  check_gradient_sums<BFloat16>(kernels::SliceWire::native, GradientWire::native);
  check_gradient_sums<Float16>(kernels::SliceWire::native, GradientWire::native);
}

TEST_CASE("slice kernels: sums of what travelled in 16 bits are those of CPU devices") {
  check_gradient_sums<float>(kernels::SliceWire::bf16, GradientWire::bf16);
  check_gradient_sums<float>(kernels::SliceWire::f16, GradientWire::f16);
}

TEST_CASE("slice kernels: collectives combine as on CPU devices") {
  check_collectives<float>();
  check_collectives<double>();
  check_collectives<std::int32_t>();
  check_collectives<std::int64_t>();
}

}  // namespace
}  // namespace tutti
