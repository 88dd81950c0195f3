// SPDX-License-Identifier: Apache-2.0
// The sums of an engine made of another engine: to the bit, also where they are not exact.
#include <tutti/tests/distributed/engines/two_halves.h>

#include <tutti/backend/registry.h>
#include <tutti/tests/distributed/device_threads.h>

#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <vector>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

TEST_CASE("two_halves: halves that are nodes of the tree give the same sums to the bit, of any numbers") {
  const auto array_on = [](Device device, float salt) {
    std::vector<float> values;
    for (int i = 0; i < 5000; ++i) values.push_back(std::sin(0.7F * static_cast<float>(i) + salt));
    return Array::from(values, {5000}, device);
  };
  for (const std::size_t count : {2, 3, 4}) {
    const std::vector<Device> devices = test_devices(count);
    const auto sums = [&](const std::unique_ptr<Communicator>& engine) {
      AllReduceRequest dense{.slices = {}, .ready = {}, .denominator = 3.0};
      CollectiveRequest own{.denominator = 3.0, .inputs = {}, .outputs = {}, .ready = {}, .parts = {{5000, {}, {}}}};
      SparseReduction sparse{.parameter = {.name = "table", .shape = {8, 625}, .dtype = DType::f32, .sparse = true},
                             .contributions = {},
                             .receivers = devices,
                             .ready = {},
                             .denominator = 3.0,
                             .result = std::make_shared<SparseResult>(SparseResult{
                                 std::vector<bool>(count, true), std::vector<std::vector<SparseGradient>>(count)})};
      for (std::size_t d = 0; d < count; ++d) {
        const auto salt = static_cast<float>(d);
        dense.slices.push_back({array_on(devices[d], salt), true});
        own.inputs.push_back(array_on(devices[d], salt));
        own.outputs.push_back(Array::empty({5000}, DType::f32, devices[d]));
        own.parts[0].sources.push_back({d, 0});
        own.parts[0].targets.push_back({d, 0});
        const std::vector<std::int64_t> rows{0, 1, 2, 3, 4, 5, 6, 7};
        sparse.contributions.push_back(
            {devices[d],
             d,
             {{Array::from(rows, {8}, devices[d]), array_on(devices[d], salt).reshape({8, 625}), {8, 625}}}});
        for (auto* ready : {&dense.ready, &own.ready, &sparse.ready})
          ready->push_back(compute_stream(devices[d]).record());
      }
      const Array reduced = dense.slices[0].gradient;
      const Array combined = own.outputs[0];
      const std::shared_ptr<CollectiveTask> tasks[] = {engine->all_reduce(dense), engine->collective(own),
                                                       engine->reduce_sparse(sparse)};
      join_tasks(devices[0], tasks);
      return std::vector{reduced.to_vector<float>(), combined.to_vector<float>(),
                         sparse.result->gradients[0][0].rows.to_vector<float>()};
    };
    const auto expected = sums(plain(devices));
    CHECK(expected[1] == expected[0]);
    CHECK(expected[2] == expected[0]);
    CHECK(sums(halves(devices)) == expected);
    CHECK(sums(halves_of_halves(devices)) == expected);
  }
}

TEST_SUITE_END();
