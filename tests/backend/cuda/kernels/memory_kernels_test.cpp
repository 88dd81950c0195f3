// SPDX-License-Identifier: Apache-2.0
// The kernels that move, convert and make elements, and the optimizer steps, against the CPU backend: to the bit.
#include <tutti/backend/cuda/kernels/copy.h>
#include <tutti/backend/cuda/kernels/dropout.h>
#include <tutti/backend/cuda/kernels/optimizer_steps.h>
#include <tutti/backend/cuda/kernels/random.h>
#include <tutti/backend/cuda/plans/element_plan.h>
#include <tutti/backend/cuda/plans/tile_plan.h>
#include <tutti/backend/formulas/philox.h>
#include <tutti/backend/random.h>
#include <tutti/backend/registry.h>
#include <tutti/testing/devices/optimizer_rule_samples.h>
#include <tutti/tests/backend/cuda/on_host/device_array.h>
#include <tutti/tests/backend/random/random_views.h>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

TEST_SUITE_BEGIN("cpu");

namespace tutti {
namespace {

namespace kernels = cuda_kernels;
using on_host::LentArrays;
using on_host::same_bits;
using samples::RandomViews;

/// With few blocks every other round, and in small pieces every third.
template <class F> void rounds(int count, const F& f) {
  for (int round = 0; round < count; ++round) {
    on_host::schedule.most_blocks = round % 2 == 0 ? ~0U : 1;
    CAPTURE(round);
    f(round, round % 3 == 0 ? std::int64_t{41} : INT32_MAX);
  }
  on_host::schedule.most_blocks = ~0U;
}

TEST_CASE("copy, fill and where move bits between any views") {
  RandomViews views(5);
  rounds(200, [&](int, std::int64_t limit) {
    const Shape shape = views.shape(5, 70);
    const DType dtype = views.dtype();
    const Array a = views.turned(shape, dtype);
    const Array b = views.turned(shape, dtype);
    const Array mask = views.turned(shape, DType::boolean);
    const Array to = views.output(shape, dtype);
    const Array expected = Array::empty(shape, dtype, cpu());
    backend_for(cpu()).where(mask, a, b, expected);
    const LentArrays lent({a, b, mask}, {to});
    const Array* const one[] = {&a};
    for_each_batch(
        "copy", to, one, [&](const ElementBatch& batch) { kernels::launch_copy(nullptr, size_of(dtype), batch); },
        limit);
    CHECK(same_bits(to, a));

    const Array* const three[] = {&mask, &a, &b};
    for_each_batch(
        "where", to, three, [&](const ElementBatch& batch) { kernels::launch_where(nullptr, size_of(dtype), batch); },
        limit);
    CHECK(same_bits(to, expected));

    for_each_batch(
        "fill", to, {}, [&](const ElementBatch& batch) { kernels::launch_fill(nullptr, size_of(dtype), 0, batch); },
        limit);
    CHECK(same_bits(to, Array::zeros(shape, dtype, cpu())));
  });
}

TEST_CASE("numbers in order are those of the CPU") {
  for (const DType dtype : kAllDTypes)
    for (const std::int64_t count : {1, 255, 256, 1001})
      for (const unsigned most_blocks : {~0U, 1U}) {
        on_host::schedule.most_blocks = most_blocks;
        const Array to = Array::zeros({count}, dtype, cpu());
        const Array expected = Array::empty({count}, dtype, cpu());
        backend_for(cpu()).arange(expected, -5, 3);
        const LentArrays lent({}, {to});
        kernels::launch_arange(nullptr, dtype, to.raw_data(), count, -5, 3);
        CHECK(same_bits(to, expected));
      }
  on_host::schedule.most_blocks = ~0U;
}

TEST_CASE("transposing copies move each element once") {
  RandomViews views(6);
  int tiled = 0;
  rounds(6, [&](int round, std::int64_t) {
    const DType dtype = views.dtype();
    const Array whole = Array::empty({views.between(16, 70), views.between(1, 3), views.between(16, 70)}, dtype, cpu());
    views.fill(whole);
    Array from = whole.permute({2, 1, 0});
    if (round % 2 == 1) {  // from the last column to the first, which are the target's rows
      Strides strides = from.strides();
      const std::int64_t last = from.offset() + (from.shape()[2] - 1) * strides[2];
      strides[2] = -strides[2];
      from = as_strided(from, from.shape(), strides, last);
    }
    const Array to = Array::zeros(from.shape(), dtype, cpu());
    const LentArrays lent({from}, {to});
    const Array* const inputs[] = {&from};
    for_each_piece("copy", to, inputs, [&](const ElementPlan& plan, std::span<const ElementMemory> memory) {
      const ElementBatch batch = make_batch(plan, memory);
      const auto tiles = plan_tiles(plan);
      REQUIRE(tiles.has_value());
      kernels::launch_transpose(nullptr, size_of(dtype), *tiles, batch.output, batch.input[0]);
      ++tiled;
    });
    CHECK(same_bits(to, from));
  });
  CHECK(tiled == 6);
}

TEST_CASE("casts convert as the CPU does") {
  RandomViews views(7);
  rounds(12, [&](int, std::int64_t limit) {
    for (const DType dtype : kAllDTypes)
      for (const DType other : kAllDTypes) {
        if (is_narrow(dtype) && other != computed_in(dtype)) continue;  // in two steps
        const Shape shape = views.shape(4, 40);
        const Array from = views.input(shape, dtype);
        const Array to = views.output(shape, other);
        const Array expected = Array::empty(shape, other, cpu());
        backend_for(cpu()).cast(from, expected);
        const LentArrays lent({from}, {to});
        const Array* const inputs[] = {&from};
        for_each_batch(
            "cast", to, inputs, [&](const ElementBatch& batch) { kernels::launch_cast(nullptr, dtype, other, batch); },
            limit);
        CAPTURE(to_string(dtype));
        CAPTURE(to_string(other));
        CHECK(same_bits(to, expected));
      }
  });
}

TEST_CASE("random numbers start and end where they should, aligned or not") {
  RandomViews views(8);
  rounds(40, [&](int, std::int64_t) {
    for (const DType dtype : {DType::f32, DType::f64})
      for (const auto kind :
           {RandomCall::Kind::uniform, RandomCall::Kind::normal, RandomCall::Kind::truncated_normal}) {
        const std::int64_t size = views.between(1, 1500);
        const std::int64_t before = views.between(0, 3);
        const RandomCall call{.kind = kind,
                              .seed = 11,
                              .stream = 3,
                              .offset = static_cast<std::uint64_t>(views.between(0, 9)) +
                                        (dtype == DType::f64 ? std::uint64_t{1} << 62U : 0),
                              .a = -1,
                              .b = 2.5};
        const Array expected = Array::zeros({size + 5}, dtype, cpu());
        const Array found = Array::zeros({size + 5}, dtype, cpu());
        backend_for(cpu()).random(call, expected.slice(0, before, before + size));
        const LentArrays lent({}, {found});
        kernels::launch_random(nullptr, dtype, call, found.slice(0, before, before + size).raw_data(), size);
        CHECK(same_bits(found, expected));
      }
  });
}

TEST_CASE("a draw may stand in device memory") {
  const DrawPlace place{11, 3, 6};
  const on_host::LentMemory lent("the draw's place", &place, sizeof(place), on_host::Lending::reading);
  const RandomCall given{.seed = 11, .stream = 3, .offset = 8, .a = -1, .b = 2.5};
  const RandomCall at_place{.offset = 2, .place = &place, .a = -1, .b = 2.5};
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Array expected = Array::zeros({37}, dtype, cpu());
    const Array found = Array::zeros({37}, dtype, cpu());
    backend_for(cpu()).random(given, expected);
    const LentArrays lent_arrays({}, {found});
    kernels::launch_random(nullptr, dtype, at_place, found.raw_data(), 37);
    CHECK(same_bits(found, expected));
  }
}

TEST_CASE("dropout keeps the same and scales to the same bits, aligned or not") {
  RandomViews views(9);
  rounds(40, [&](int round, std::int64_t) {
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
      const std::int64_t size = views.between(1, 1500);
      const std::int64_t before = round % 4 == 0 ? 0 : views.between(0, 7);
      const DrawPlace place{5, 1, static_cast<std::uint64_t>(views.between(0, 9))};
      const on_host::LentMemory lent_place("the draw's place", &place, sizeof(place), on_host::Lending::reading);
      const DropoutCall call{.draw = {.offset = 4, .place = &place}, .keep = 0.7F, .factor = 1 / 0.7};
      const DropoutCall given{.draw = placed(call.draw), .keep = call.keep, .factor = call.factor};
      const auto part = [&](const Array& all) { return all.slice(0, before, before + size); };
      Array x = Array::empty({size + 8}, dtype, cpu());
      Generator random(static_cast<std::uint64_t>(round));
      x.copy_from(random.normal({size + 8}, DType::f32, cpu()).cast(dtype));
      const auto made = [&](DType of) {
        return std::pair(Array::zeros({size + 8}, of, cpu()), Array::zeros({size + 8}, of, cpu()));
      };
      const auto [expected, found] = made(dtype);
      const auto [expected_kept, found_kept] = made(DType::boolean);
      const auto [expected_scaled, found_scaled] = made(dtype);
      backend_for(cpu()).dropout(given, part(x), part(expected), part(expected_kept));
      backend_for(cpu()).dropout_gradient(call.factor, part(expected_kept), part(x), part(expected_scaled));
      const LentArrays lent({x}, {found, found_kept, found_scaled});
      kernels::launch_dropout(nullptr, dtype, call, part(x).raw_data(), size, part(found).raw_data(),
                              part(found_kept).data<bool>());
      kernels::launch_scale_kept(nullptr, dtype, call.factor, part(found_kept).data<bool>(), part(x).raw_data(), size,
                                 part(found_scaled).raw_data());
      CHECK(same_bits(found, expected));
      CHECK(same_bits(found_kept, expected_kept));
      CHECK(same_bits(found_scaled, expected_scaled));
      CHECK(same_bits(expected_scaled, expected));
    }
  });
}

/// Ordinary numbers, of which the memory may start anywhere.
Array state(RandomViews& views, std::int64_t size, DType dtype, bool aligned) {
  std::vector<double> values(static_cast<std::size_t>(size) + 3);
  for (double& value : values) value = static_cast<double>(views.between(1, 1000)) / 300;
  const std::int64_t begin = aligned ? 0 : views.between(0, 3);
  return Array::from(values, {size + 3}, cpu()).cast(dtype).copy().slice(0, begin, begin + size);
}

/// Parameters with gradients and two states each, of which some start where no 16 bytes start.
struct SteppedParameters {
  std::vector<std::vector<Array>> arrays;

  SteppedParameters(RandomViews& views, std::int64_t count, DType dtype) {
    for (std::int64_t p = 0; p < count; ++p) {
      const std::int64_t size = views.between(1, p % 9 == 0 ? 6000 : 300);
      arrays.emplace_back();
      for (int i = 0; i < 5; ++i) arrays.back().push_back(state(views, size, dtype, p % 5 != 0));
    }
  }
  SteppedParameters(const SteppedParameters& other) {
    for (const auto& each : other.arrays) {
      arrays.emplace_back();
      for (const Array& array : each) arrays.back().push_back(array.copy());
    }
  }
  std::vector<kernels::ParameterMemory> memory() const {
    std::vector<kernels::ParameterMemory> all;
    for (const auto& each : arrays)
      all.push_back({each[0].size(),
                     each[0].raw_data(),
                     each[1].raw_data(),
                     {each[2].raw_data(), each[3].raw_data(), each[4].raw_data()}});
    return all;
  }
  LentArrays lent() const {
    std::vector<Array> inputs;
    std::vector<Array> outputs;
    for (const auto& each : arrays) {
      inputs.push_back(each[1]);
      for (const std::size_t i : {0, 2, 3, 4}) outputs.push_back(each[i]);
    }
    return {inputs, outputs};
  }
  void check_same(const SteppedParameters& other) const {
    for (std::size_t p = 0; p < arrays.size(); ++p)
      for (std::size_t i = 0; i < 5; ++i) CHECK(same_bits(arrays[p][i], other.arrays[p][i]));
  }
};

TEST_CASE("optimizer rules change parameter and state as the CPU does, one or hundreds of them") {
  RandomViews views(10);
  rounds(39, [&](int round, std::int64_t) {
    const OptimizerRule& rule =
        samples::kOptimizerRules[static_cast<std::size_t>(round) % std::size(samples::kOptimizerRules)];
    const DType dtype = round % 4 < 2 ? DType::f32 : DType::f64;
    const SteppedParameters found(views, round % 5 == 0 ? 1 : views.between(2, 200), dtype);
    const SteppedParameters expected(found);
    synchronize(cpu());
    const LentArrays lent = found.lent();
    std::vector<RuleOperands> operands;
    for (const auto& each : expected.arrays) operands.push_back({each[0], each[1], {each[2], each[3], each[4]}});
    backend_for(cpu()).optimizer_step(rule, operands);
    kernels::launch_optimizer_step(nullptr, dtype, rule, found.memory());
    found.check_same(expected);
  });
}

}  // namespace
}  // namespace tutti

TEST_SUITE_END();
