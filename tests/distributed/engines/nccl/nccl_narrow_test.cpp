// SPDX-License-Identifier: Apache-2.0
// Sums of 16-bit gradients, and of f32 that travels in 16 bits, by NCCL's engine without a GPU: to the bit what CPU
// devices get.
#include <tutti/backend/error.h>
#include <tutti/distributed/collectives/gradient_sums.h>
#include <tutti/distributed/collectives/sparse_reduction.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/tests/distributed/engines/nccl/nccl_machine.h>
#include <tutti/tests/distributed/given_gradients.h>

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>

using namespace tutti;
using namespace tutti::testing;

namespace {

/// Some of them add up to another number in another order.
Array random_array(std::mt19937& random, std::int64_t count, DType dtype) {
  constexpr float kSpecial[] = {32768.0F, -32768.0F, 0x1p-12F, -0.0F};
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) {
    const float mantissa = static_cast<float>(static_cast<std::int32_t>(random()));
    values.push_back(std::ldexp(mantissa, static_cast<int>(random() % 20) - 40));
    if (random() % 2 == 0) values.back() = kSpecial[random() % 4];
  }
  return Array::from(values, {count}, cpu()).cast(dtype);
}

bool same_bits(const Array& found, const Array& expected) {
  const Array here = found.to(cpu());
  synchronize(cpu());
  return std::memcmp(here.raw_data(), expected.raw_data(), expected.bytes()) == 0;
}

enum class Part : std::uint8_t { contributes, silent, absent };

struct Numbers {
  DType dtype = DType::f32;
  GradientWire wire = GradientWire::native;
  double wire_scale = 1.0;
};
constexpr Numbers kNumbers[] = {
    {DType::bf16}, {DType::f16}, {DType::f32, GradientWire::bf16}, {DType::f32, GradientWire::f16, 0.125}};

void check_sum(const NcclMachine& machine, NcclCommunicator& engine, const Numbers& numbers, std::int64_t count,
               const std::vector<Part>& parts, double denominator) {
  std::mt19937 random(static_cast<unsigned>(count + 7 * static_cast<std::int64_t>(parts.size())));
  AllReduceRequest expected{
      .slices = {}, .ready = {}, .denominator = denominator, .wire = numbers.wire, .wire_scale = numbers.wire_scale};
  AllReduceRequest request = expected;
  for (std::size_t d = 0; d < parts.size(); ++d) {
    if (parts[d] == Part::absent) continue;
    const Array values = random_array(random, count, numbers.dtype);
    expected.slices.push_back({values, parts[d] == Part::contributes});
    request.slices.push_back({values.to(machine.devices[d]), parts[d] == Part::contributes});
    if (parts[d] == Part::contributes) request.ready.push_back(compute_stream(machine.devices[d]).record());
  }
  check_slices(expected);
  synchronize(cpu());
  machine.join_all(engine.all_reduce(request));
  machine.synchronize_all();
  ElementSums(expected).run(0, count);
  for (std::size_t i = 0; i < request.slices.size(); ++i)
    CHECK(same_bits(request.slices[i].gradient, expected.slices[i].gradient));
}

}  // namespace

TEST_CASE("nccl narrow: sums are those of CPU devices, whoever contributes and however they are shared out") {
  for (const int count : {2, 3, 4})
    for (const bool deferred : {false, true}) {
      CAPTURE(count);
      CAPTURE(deferred);
      const NcclMachine machine(count, deferred);
      const auto engine = machine.connect();
      const auto n = static_cast<std::size_t>(count);
      std::vector<std::vector<Part>> cases(5, std::vector<Part>(n, Part::contributes));
      cases[1][1] = Part::absent;
      cases[2][0] = Part::silent;
      cases[3].assign(n, Part::silent);
      cases[4].assign(n, Part::absent);
      cases[4].back() = Part::contributes;
      for (const Numbers& numbers : kNumbers)
        for (const auto& parts : cases)
          for (const std::int64_t size : {1, 64, 65, 1000}) {
            CAPTURE(to_string(numbers.dtype));
            CAPTURE(to_string(numbers.wire));
            CAPTURE(size);
            check_sum(machine, *engine, numbers, size, parts, 7.25);
            check_sum(machine, *engine, numbers, size, parts, 1.0);
          }
      CHECK(machine.nccl.count("ncclAllReduce") == 0);
    }
}

TEST_CASE("nccl narrow: each device receives what a ring would bring it, and sends as much") {
  const NcclMachine machine(4);
  const auto engine = machine.connect();
  check_sum(machine, *engine, {DType::bf16}, 4096, std::vector<Part>(4, Part::contributes), 4.0);
  CHECK(machine.nccl.bytes_received(2) == 2 * 3 * 1024 * 2);  // both ways, from three others, a quarter, of 16 bits
}

TEST_CASE("nccl narrow: training with 16-bit parameters and wires gives what CPU devices get") {
  struct Case {
    DType dtype;
    SyncOptions options;
  };
  const Case cases[] = {{DType::bf16, {}},
                        {DType::f16, {.bucket_bytes = 0}},
                        {DType::bf16, {.absent = Absent::subset}},
                        {DType::f32, {.wire = GradientWire::bf16}},
                        {DType::f32, {.reduction = GradientReduction::mean, .wire = GradientWire::f16}}};
  for (const int count : {2, 3, 4})
    for (const Case& each : cases) {
      CAPTURE(count);
      CAPTURE(to_string(each.dtype));
      const GivenResults expected =
          given_results(test_devices(static_cast<std::size_t>(count)), each.options, each.dtype);
      const NcclMachine machine(count, count == 3);
      CHECK(given_results(machine.devices, each.options, each.dtype) == expected);
    }
}

TEST_CASE("nccl narrow: collectives of the users' own") {
  const NcclMachine machine(3, true);
  const auto engine = machine.connect();
  const auto run = [&](CollectiveOperation operation, const std::vector<CollectivePart>& parts) {
    std::mt19937 random(3);
    CollectiveRequest expected{.operation = operation, .inputs = {}, .outputs = {}, .ready = {}, .parts = parts};
    CollectiveRequest request = expected;
    for (const Device device : machine.devices) {
      expected.inputs.push_back(random_array(random, 300, DType::bf16));
      expected.outputs.push_back(Array::zeros({300}, DType::bf16, cpu()));
      request.inputs.push_back(expected.inputs.back().to(device));
      request.outputs.push_back(expected.outputs.back().to(device));
      request.ready.push_back(compute_stream(device).record());
    }
    synchronize(cpu());
    machine.join_all(engine->collective(request));
    machine.synchronize_all();
    for (const CollectivePart& part : parts) combine(expected, part, 0, part.count);
    CAPTURE(static_cast<int>(operation));
    for (std::size_t d = 0; d < 3; ++d) CHECK(same_bits(request.outputs[d], expected.outputs[d]));
  };
  const std::vector<CollectivePart::Place> all{{0, 0}, {1, 0}, {2, 0}};
  run(CollectiveOperation::sum, {{300, all, all}});
  run(CollectiveOperation::mean, {{300, all, all}});
  run(CollectiveOperation::max, {{300, all, all}});
  run(CollectiveOperation::sum, {{100, all, {{0, 0}}}, {100, all, {{1, 0}}}, {100, {{0, 200}, {2, 200}}, {{2, 0}}}});
}

namespace {

SparseGradient rows_on(Device device, const std::vector<std::int64_t>& indices, const std::vector<float>& rows,
                       DType dtype) {
  const auto count = static_cast<std::int64_t>(indices.size());
  return {Array::from(indices, {count}, device), Array::from(rows, {count, 2}, cpu()).cast(dtype).to(device), {10, 2}};
}

}  // namespace

TEST_CASE("nccl: sparse gradients reach each receiver, joined and divided") {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const bool deferred : {false, true}) {
      const NcclMachine machine(3, deferred);
      const auto engine = machine.connect();
      SparseReduction request{.parameter = {.name = "table", .shape = {10, 2}, .dtype = dtype, .sparse = true},
                              .contributions = {},
                              .receivers = machine.devices,
                              .ready = {},
                              .denominator = 2.0,
                              .result = std::make_shared<SparseResult>()};
      request.contributions = {
          {cuda(0), 0, {rows_on(cuda(0), {3, 1}, {1, 2, 3, 4}, dtype), rows_on(cuda(0), {}, {}, dtype)}},
          {cuda(2), 2, {rows_on(cuda(2), {3}, {5, 6}, dtype)}}};
      for (const Device device : machine.devices) request.ready.push_back(compute_stream(device).record());
      request.result->receives = {true, true, false};
      request.result->gradients.resize(3);
      machine.join_all(engine->reduce_sparse(request));
      for (std::size_t member = 0; member < 2; ++member) {
        REQUIRE(request.result->gradients[member].size() == 1);
        const SparseGradient& sum = request.result->gradients[member].front();
        CHECK(sum.indices.to_vector<std::int64_t>() == std::vector<std::int64_t>{3, 1, 3});
        CHECK(sum.rows.to(cpu()).cast(DType::f32).to_vector<float>() == std::vector<float>{0.5, 1, 1.5, 2, 2.5, 3});
        CHECK(!sum.coalesced);
      }
      CHECK(request.result->gradients[2].empty());
    }
}
