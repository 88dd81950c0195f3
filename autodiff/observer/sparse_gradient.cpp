// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/observer/sparse_gradient.h>

#include <tutti/backend/operations.h>
#include <tutti/backend/raise.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

namespace tutti {

namespace {

Shape with_rows(Shape table, std::int64_t rows) {
  table[0] = rows;
  return table;
}

Array scatter_rows(std::int64_t count, const Array& rows, const Array& indices, const Shape& table) {
  const std::int64_t columns = columns_of(table);
  const Array flat = rows.reshape({indices.size(), columns});
  return scatter_add({count, columns}, flat, 0, index_of_rows(indices, columns)).reshape(with_rows(table, count));
}

SparseGradient concatenated(std::span<const SparseGradient> parts) {
  if (parts.size() == 1) return parts.front();
  std::vector<Array> indices;
  std::vector<Array> rows;
  for (const SparseGradient& part : parts) {
    indices.push_back(part.indices);
    rows.push_back(part.rows);
  }
  return {concatenate(indices, 0), concatenate(rows, 0), parts.front().shape, false};
}

bool is_ascending(const std::vector<std::int64_t>& indices) {
  return std::ranges::adjacent_find(indices, std::greater_equal{}) == indices.end();
}

}  // namespace

std::int64_t columns_of(const Shape& table) { return element_count(with_rows(table, 1)); }

Array index_of_rows(const Array& indices, std::int64_t columns) {
  return indices.expand_dims(1).broadcast_to({indices.size(), columns});
}

Array SparseGradient::dense() const {
  if (!defined()) raise("[sparse_gradient] an undefined gradient has no dense form");
  return scatter_rows(shape[0], rows, indices, shape);
}

SparseGradient coalesce(std::span<const SparseGradient> parts) {
  if (parts.empty()) raise("[coalesce] there are no sparse gradients");
  if (parts.size() == 1 && parts.front().coalesced) return parts.front();
  SparseGradient all = concatenated(parts);
  const auto indices = all.indices.to_vector<std::int64_t>();
  all.coalesced = is_ascending(indices);
  if (all.coalesced) return all;
  std::vector<std::int64_t> unique = indices;
  std::ranges::sort(unique);
  const auto repeated = std::ranges::unique(unique);
  unique.erase(repeated.begin(), repeated.end());
  std::vector<std::int64_t> places;
  places.reserve(indices.size());
  for (const std::int64_t index : indices) places.push_back(std::ranges::lower_bound(unique, index) - unique.begin());
  const Device device = all.indices.device();
  const auto count = static_cast<std::int64_t>(unique.size());
  return {Array::from(unique, {count}, device),
          scatter_rows(count, all.rows, Array::from(places, {all.count()}, device), all.shape), all.shape, true};
}

}  // namespace tutti
