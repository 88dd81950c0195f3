// SPDX-License-Identifier: Apache-2.0
// Which elements the blocks of a transposing copy move. Needs no device.
#include <tutti/backend/cuda/plans/tile_plan.h>
#include <tutti/backend/registry.h>

#include <doctest/doctest.h>

#include <array>
#include <vector>

TEST_SUITE_BEGIN("cpu");

namespace tutti {
namespace {

/// Moves an array's elements as `transpose_tiles` does (kernels/copy.cu), in each piece; false without tiles.
bool copy_by_tiles(const Array& from, const Array& to, std::int64_t limit = INT32_MAX) {
  synchronize(cpu());
  bool tiled = true;
  const Array* const inputs[] = {&from};
  for_each_piece(
      "copy", to, inputs,
      [&](const ElementPlan& plan, std::span<const ElementMemory> memory) {
        const auto layout = plan_tiles(plan);
        if (!layout) return void(tiled = false);
        const ElementBatch batch = make_batch(plan, memory);
        auto* target = reinterpret_cast<float*>(batch.output);
        const auto* source = reinterpret_cast<const float*>(batch.input[0]);
        for (std::uint32_t index = 0; index < layout->tiles.items; ++index) {
          const Tile tile = tile_at(*layout, index);
          for (std::int64_t i = 0; i < tile.target_axis; ++i)
            for (std::int64_t j = 0; j < tile.source_axis; ++j)
              target[tile.first.of[0] + j * layout->target_stride + i] +=
                  source[tile.first.of[1] + i * layout->source_stride + j];
        }
      },
      limit);
  return tiled;
}

Array numbered(const Shape& shape) { return Array::arange(element_count(shape), DType::f32, cpu()).reshape(shape); }

void check_tiled(const Array& from, std::int64_t limit = INT32_MAX) {
  const Array to = Array::zeros(from.shape(), DType::f32, cpu());
  CHECK(copy_by_tiles(from, to, limit));
  CHECK(to.to_vector<float>() == from.to_vector<float>());
}

TEST_CASE("tiles move each element of a transpose once") {
  for (const std::int64_t rows : {16, 17, 31, 32, 33, 64, 100})
    for (const std::int64_t columns : {16, 32, 45, 129}) check_tiled(numbered({rows, columns}).transpose());
  check_tiled(numbered({3, 20, 5, 41}).permute({0, 2, 3, 1}));
  check_tiled(numbered({3, 20, 5, 41}).permute({3, 0, 2, 1}));
  check_tiled(numbered({2, 40, 6, 7}).permute({0, 2, 3, 1}));  // channels last: the image is one axis
  check_tiled(numbered({2, 40, 70}).slice(2, 3, 60).slice(1, 0, 39, 2).transpose());
  check_tiled(numbered({40, 50}).expand_dims(1).broadcast_to({40, 3, 50}).permute({2, 1, 0}));
}

TEST_CASE("tiles write to views too") {
  const Array memory = Array::zeros({40, 20}, DType::f32, cpu());
  const Array from = numbered({20, 40});
  CHECK(copy_by_tiles(from, memory.transpose()));
  CHECK(memory.to_vector<float>() == from.transpose().to_vector<float>());
}

TEST_CASE("where neighbours stay neighbours, or are few, there are no tiles") {
  const auto tiled = [](const Array& from) {
    return copy_by_tiles(from, Array::zeros(from.shape(), DType::f32, cpu()));
  };
  CHECK_FALSE(tiled(numbered({40, 40})));
  CHECK_FALSE(tiled(numbered({40, 40, 40}).transpose(0, 1)));
  CHECK_FALSE(tiled(numbered({8, 40}).transpose()));
  CHECK_FALSE(tiled(numbered({40, 8}).transpose()));
  CHECK_FALSE(tiled(numbered({40, 40}).slice(1, 0, 40, 2).transpose()));
  CHECK_FALSE(tiled(numbered({40}).broadcast_to({40, 40}).transpose().slice(1, 0, 1)));
  CHECK_FALSE(tiled(numbered({40}).expand_dims(1).broadcast_to({40, 40})));
}

TEST_CASE("pieces of a transpose are tiled each") {
  check_tiled(numbered({96, 100}).transpose(), 5000);
  check_tiled(numbered({5, 64, 64}).transpose(), 4200);
}

}  // namespace
}  // namespace tutti

TEST_SUITE_END();
